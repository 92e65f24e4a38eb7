"""Each way to people, behind one small port; a vendor's library never leaves its own folder."""
