"""Commands that users type in conversations, and the table of all commands.

Owns the command table: name, arguments, permission and handler of each command. One row describes a
command for every interface: typed in a conversation, `choirctl`, and its `/v1` route. Handlers contain
no rules about agents; they call the same services as the operator API.
"""
