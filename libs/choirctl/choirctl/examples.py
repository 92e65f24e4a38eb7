"""One example per command, shown at the end of its help. Used by `app`; a test parses each example."""

import typer

EXAMPLES = {
    "up": "choirctl up --detach",
    "down": "choirctl down",
    "status": "choirctl status",
    "chat": 'choirctl chat --agent main -m "What is new?"',
    "agent list": "choirctl agent list --json",
    "agent init": "choirctl agent init helper",
    "agent delete": "choirctl agent delete helper",
    "agent start": "choirctl agent start main --llm quick",
    "agent stop": "choirctl agent stop main",
    "agent restart": "choirctl agent restart main",
    "agent status": "choirctl agent status main",
    "agent inject": 'choirctl agent inject main "in French, please"',
    "agent cancel": "choirctl agent cancel main read-mail",
    "agent build": "choirctl agent build main",
    "agent update": "choirctl agent update main",
    "agent update-all": "choirctl agent update-all",
    "model list": "choirctl model list",
    "model get": "choirctl model get main",
    "model set": "choirctl model set main --llm quick",
    "voice list": "choirctl voice list",
    "voice get": "choirctl voice get main",
    "voice set": "choirctl voice set main calm",
    "session list": "choirctl session list main --follow",
    "session show": "choirctl session show ses_1a2b",
    "session events": "choirctl session events ses_1a2b --follow",
    "session cores": "choirctl session cores ses_1a2b",
    "session cancel": "choirctl session cancel ses_1a2b read-mail",
    "session compact": "choirctl session compact ses_1a2b",
    "session verify": "choirctl session verify ses_1a2b",
    "memory status": "choirctl memory status main",
    "memory list": "choirctl memory list main --prefix user.",
    "memory show": "choirctl memory show main user.tea",
    "memory search": 'choirctl memory search main "what does the operator drink?"',
    "memory put": 'choirctl memory put main --key user.tea "The operator likes green tea."',
    "memory delete": "choirctl memory delete main user.tea --yes",
    "memory export": "choirctl memory export main --out main.jsonl",
    "memory import": "choirctl memory import helper main.jsonl",
    "memory audit": "choirctl memory audit main --limit 20",
    "memory receipt": "choirctl memory receipt main 1b4e28ba-2fa1-41d2-883f-0016d3cca427",
    "collection add": "choirctl collection add main manuals boiler.md heating.md",
    "collection list": "choirctl collection list main",
    "collection remove": "choirctl collection remove main manuals --document boiler.md --yes",
    "workspace list": "choirctl workspace list",
    "workspace reset": "choirctl workspace reset main --yes",
    "approval list": "choirctl approval list --all",
    "approval show": "choirctl approval show appr_1a2b",
    "approval approve": "choirctl approval approve appr_1a2b",
    "approval reject": "choirctl approval reject appr_1a2b",
    "approval rollback": "choirctl approval rollback appr_1a2b",
    "operation list": "choirctl operation list",
    "operation show": "choirctl operation show op_1a2b --follow",
    "logs": "choirctl logs main --lines 20",
    "config show": "choirctl config show",
    "config load": "choirctl config load",
    "config diff": "choirctl config diff",
    "config apply": "choirctl config apply",
    "config report": "choirctl config report",
    "config schema": "choirctl config schema",
    "config set": "choirctl config set agents.main.timezone Europe/Berlin",
    "secret list": "choirctl secret list",
    "secret set": "choirctl secret set openrouter-key < key.txt",
    "secret delete": "choirctl secret delete openrouter-key",
    "secret apply": "choirctl secret apply",
    "db status": "choirctl db status",
    "db migrate": "choirctl db migrate",
    "db backup": "choirctl db backup choir.backup",
    "db restore": "choirctl db restore choir.backup",
    "tls": "choirctl tls",
    "doctor": "choirctl doctor",
    "init": "choirctl init",
    "version": "choirctl version --json",
}


def add_examples(app: typer.Typer, above: str = "") -> None:
    """Set the help epilog of every command of `app`, and of its groups, to the command's example."""
    for command in app.registered_commands:
        name = command.name or getattr(command.callback, "__name__", "")
        if (example := EXAMPLES.get(f"{above}{name}")) is not None:
            command.epilog = f"Example: {example}"
    for group in app.registered_groups:
        if group.typer_instance is not None:
            add_examples(group.typer_instance, f"{above}{group.name} ")
