-- The conversations that a document comes from: a reader may find it if all of them are the reader's. `{}`: it comes from
-- none and belongs to all. Null: it is older than this column; such documents belong to the person of the home
-- conversation.
ALTER TABLE {schema}.memory_documents ADD COLUMN conversations text[];
ALTER TABLE {schema}.memory_documents ALTER COLUMN conversations SET DEFAULT '{}';
ALTER TABLE {schema}.knowledge_documents ADD COLUMN conversations text[] DEFAULT '{}';
-- Files of collections and what an operator wrote were never said in a conversation.
UPDATE {schema}.knowledge_documents SET conversations = NULL WHERE collection IS NULL AND origin <> 'operator';
