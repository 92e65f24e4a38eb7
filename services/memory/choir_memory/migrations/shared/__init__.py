"""The schema `choir_memory`: spaces, embedding models and queue, sessions, audit log, receipts, cursors."""
