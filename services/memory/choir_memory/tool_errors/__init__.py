"""Known tool failures and how they ended, so that an agent does not repeat them."""
