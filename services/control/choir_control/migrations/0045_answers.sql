-- What a person answered to the form of an MCP server.
ALTER TABLE {schema}.pending_approvals ADD COLUMN answer json;
