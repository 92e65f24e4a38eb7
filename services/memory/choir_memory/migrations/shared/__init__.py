"""The schema `choir_memory`: spaces, embedding models and the embedding queue."""
