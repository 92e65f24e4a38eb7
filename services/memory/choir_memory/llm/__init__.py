"""The language model that memory uses to extract facts and to summarize."""
