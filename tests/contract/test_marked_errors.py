"""Errors that a person reads are marked for translation; `test_translations.py` then demands the translation.

The rule is decided from the source: an error of Choir's tree, or of a messenger, is created with no sentence
but a marked one. Modules whose errors go to programs, or to an agent's model, are listed here.
"""

import ast
import functools
from collections.abc import Iterator

import pytest

from scripts.translations import ROOT, SOURCES
from tests.support.sentences import bare_sentences, name_of

ROOTS = {"ChoirError", "MailError", "RefusedError", "MatrixError", "CloudApiError", "StepFailed"}
"""Errors whose text reaches people, with all classes below them."""
AGENT = "an agent's program reads it"
MODEL = "the model of an agent reads it, and people only in the log, which is English"
PROGRAM = "a program of somebody else reads it, and logs it"
SERVICE = "another service of Choir reads it; a person gets what that one says"
FOR_PROGRAMS = {
    "services/control/choir_control/api/rpc/": AGENT,
    "services/control/choir_control/agents/sessions/handshake.py": AGENT,
    "services/control/choir_control/log/eventlog/": AGENT,
    "services/control/choir_control/log/leases/authentication.py": AGENT,
    "services/control/choir_control/log/signals/": AGENT,
    "services/control/choir_control/api/openai/": PROGRAM,
    "services/control/choir_control/api/mcp/": PROGRAM,
    "services/control/choir_control/api_clients/client_tools.py": PROGRAM,
    "services/control/choir_control/web/push/": PROGRAM,
    "services/control/choir_control/api/bus.py": SERVICE,
    "services/control/choir_control/agents/host_tools/": MODEL,
    "services/control/choir_control/approvals/store.py": MODEL,
    "services/control/choir_control/conversations/agent_questions/": MODEL,
    "services/control/choir_control/conversations/schedules/agent_tools.py": MODEL,
    "services/gateway/choir_gateway/api/bots.py": SERVICE,
    "services/gateway/choir_gateway/channels/telegram/webhook.py": PROGRAM,
    "services/gateway/choir_gateway/channels/webhook/": PROGRAM,
    "services/gateway/choir_gateway/channels/whatsapp/receiver.py": PROGRAM,
    "services/gateway/choir_gateway/channels/whatsapp/signature.py": PROGRAM,
    "services/memory/choir_memory/documents/store.py": SERVICE,
    "services/memory/choir_memory/facts/": SERVICE,
    "services/memory/choir_memory/llm/": SERVICE,
    "services/memory/choir_memory/sessions/": SERVICE,
    "services/agent/choir_agent/budgets/": MODEL,
    "services/agent/choir_agent/harnesses/acp_requests.py": PROGRAM,
    "services/agent/choir_agent/harnesses/acp_session.py": PROGRAM,
    "services/agent/choir_agent/lanes/": MODEL,
    "services/agent/choir_agent/mcp_client/address_requests.py": MODEL,
    "services/agent/choir_agent/mcp_client/questions.py": PROGRAM,
    "services/agent/choir_agent/mcp_client/results.py": MODEL,
    "services/agent/choir_agent/mcp_client/sampling.py": PROGRAM,
    "services/agent/choir_agent/mcp_client/sampling_model.py": PROGRAM,
    "services/agent/choir_agent/mcp_client/server_host.py": PROGRAM,
    "services/agent/choir_agent/tools/": MODEL,
    "services/agent/choir_agent/working_memory/": MODEL,
    "services/agent/choir_agent/control_client/": "it ends the agent's process, whose log is English",
    "services/agent/choir_agent/log/": "it ends the agent's process, whose log is English",
    **{
        f"services/browser/choir_browser/{path}": MODEL
        for path in (
            *("blobs/", "contexts/", "egress/"),
            *(
                f"pages/{it}.py"
                for it in (
                    *("context", "downloads", "error_translation", "page_actions", "script"),
                    *("tab", "tabs"),
                )
            ),
        )
    },
    **{
        f"services/egress/choir_egress/{it}.py": "a command of an agent reads it as an answer of HTTP"
        for it in ("access", "agent_proxy", "client_connection", "keyed_requests", "proxied_keys")
    },
    "services/egress/choir_egress/endpoints.py": SERVICE,
    "libs/choir_common/choir_common/egress/dialer.py": MODEL,
    "deploy/local/choir_local/transcriber/app.py": SERVICE,
}
"""Modules and folders whose errors no person reads, with the reason."""


@functools.cache
def modules() -> dict[str, ast.Module]:
    """Return the trees of all modules of services and libraries, except choirctl, by their paths."""
    folders = [ROOT / it for it in SOURCES if not it.endswith("/choirctl")]
    files = (path for folder in folders for path in sorted(folder.rglob("*.py")))
    return {str(path.relative_to(ROOT)): ast.parse(path.read_text()) for path in files}


@functools.cache
def error_classes() -> frozenset[str]:
    """Return the names of all classes below `ROOTS`."""
    bases: dict[str, set[str]] = {}
    for tree in modules().values():
        for node in ast.walk(tree):
            if isinstance(node, ast.ClassDef):
                names = {name_of(base).rpartition(".")[2] for base in node.bases}
                bases.setdefault(node.name, set()).update(names)
    classes = set(ROOTS)
    while below := {name for name, above in bases.items() if above & classes} - classes:
        classes |= below
    return frozenset(classes)


def unmarked(tree: ast.Module) -> Iterator[str]:
    """Yield the sentences that an error of the module gets without a mark, also by a constant."""
    constants = {
        target.id: node.value
        for node in tree.body
        if isinstance(node, ast.Assign)
        for target in node.targets
        if isinstance(target, ast.Name)
    }
    for node in ast.walk(tree):
        match node:
            case ast.Call(func=function, args=args, keywords=keywords) if (
                name_of(function).rpartition(".")[2] in error_classes()
            ):
                for value in (*args, *(it.value for it in keywords)):
                    yield from bare_sentences(value)
                    for name in ast.walk(value):
                        if isinstance(name, ast.Name) and name.id in constants:
                            yield from bare_sentences(constants[name.id])


@functools.cache
def findings() -> dict[str, list[str]]:
    """Return the unmarked sentences of each module that has some."""
    all_texts = {path: sorted(set(unmarked(tree))) for path, tree in modules().items()}
    return {path: texts for path, texts in all_texts.items() if texts}


def test_an_error_that_a_person_reads_is_marked_for_translation() -> None:
    exceptions = tuple(FOR_PROGRAMS)
    assert {it: texts for it, texts in findings().items() if not it.startswith(exceptions)} == {}


def test_each_exception_is_still_needed() -> None:
    unused = [it for it in FOR_PROGRAMS if not any(path.startswith(it) for path in findings())]
    assert unused == []


@pytest.mark.parametrize(
    ("source", "texts"),
    [
        ('raise NotFound(f"There is no {name}.")', ["There is no {}."]),
        ('TEXT = "There is nothing."\nraise Conflict(TEXT)', ["There is nothing."]),
        ('error = ModelFailed("it went wrong", cause="x")', ["it went wrong"]),
        ('raise NotFound(_("There is no {name}.").format(name=name))', []),
        ('raise ValueError("a mistake of the caller")', []),
    ],
)
def test_what_counts_as_an_unmarked_sentence(source: str, texts: list[str]) -> None:
    assert list(unmarked(ast.parse(source))) == texts
