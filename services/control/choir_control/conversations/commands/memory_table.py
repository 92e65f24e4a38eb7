"""The rows of the command table about memory: what operators do with it, and collections."""

from choir_control.conversations.commands.spec import CommandSpec

_OF_MEMORY = "/v1/agents/{agent_id}/memory"
MEMORY_COMMANDS = (
    CommandSpec.for_operators(
        "Show how much an agent remembers.", "memory status", f"GET {_OF_MEMORY}"
    ),
    CommandSpec.for_operators(
        "List what an agent knows, or the units of its sessions.",
        "memory list",
        f"GET {_OF_MEMORY}/documents",
    ),
    CommandSpec.for_operators(
        "Show one complete document.", "memory show", f"GET {_OF_MEMORY}/documents/{{name}}"
    ),
    CommandSpec.for_operators(
        "Search an agent's memory as the agent does.", "memory search", f"POST {_OF_MEMORY}/search"
    ),
    CommandSpec.for_operators(
        "Store knowledge in an agent's memory.", "memory put", f"POST {_OF_MEMORY}/documents"
    ),
    CommandSpec.for_operators(
        "Erase a document and what only it supported.",
        "memory delete",
        f"DELETE {_OF_MEMORY}/documents/{{name}}",
    ),
    CommandSpec.for_operators(
        "Erase everything that memory stores of a session.",
        "memory delete",
        f"DELETE {_OF_MEMORY}/sessions/{{session_id}}",
    ),
    CommandSpec.for_operators(
        "Take back what was learned from one source, session or period.", "memory undo", None
    ),
    CommandSpec.for_operators(
        "Export an agent's memory.", "memory export", f"GET {_OF_MEMORY}/export"
    ),
    CommandSpec.for_operators(
        "Import an export into an agent's memory.", "memory import", f"POST {_OF_MEMORY}/import"
    ),
    *(
        CommandSpec.for_operators(
            f"Import what {name} stored or exported.", f"import {source}", None
        )
        for source, name in (
            ("openclaw", "OpenClaw"),
            ("hermes", "Hermes Agent"),
            ("chatgpt", "ChatGPT"),
            ("claude", "Claude"),
            ("nanobot", "nanobot"),
        )
    ),
    CommandSpec.for_operators(
        "Show who did what to an agent's memory.", "memory audit", f"GET {_OF_MEMORY}/audit"
    ),
    CommandSpec.for_operators(
        "Show what users said about an agent's conduct.",
        "memory feedback",
        f"GET {_OF_MEMORY}/feedback",
    ),
    CommandSpec.for_operators(
        "Show how a search ran.", "memory receipt", f"GET {_OF_MEMORY}/receipts/{{receipt_id}}"
    ),
)

_COLLECTIONS = "/v1/agents/{agent_id}/collections"
_ONE = f"{_COLLECTIONS}/{{collection}}"
COLLECTION_COMMANDS = (
    CommandSpec.for_operators(
        "Add documents to an agent's memory.", "collection add", f"POST {_ONE}"
    ),
    CommandSpec.for_operators(
        "Upload a file to a collection.", "collection add", f"PUT {_ONE}/files"
    ),
    CommandSpec.for_operators(
        "Let a collection follow a folder.", "collection add", f"POST {_ONE}/folder"
    ),
    CommandSpec.for_operators(
        "List an agent's collections.", "collection list", f"GET {_COLLECTIONS}"
    ),
    CommandSpec.for_operators(
        "List the documents of a collection.", "collection list", f"GET {_ONE}"
    ),
    CommandSpec.for_operators(
        "Erase a collection, or one document of it.", "collection remove", f"DELETE {_ONE}"
    ),
)
