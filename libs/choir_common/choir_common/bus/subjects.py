"""Every NATS subject as a function, and who may publish and who may subscribe to it.

`ROUTES` is the source of the permissions that the NATS server enforces (`permissions`).
"""

from collections.abc import Callable, Collection
from dataclasses import dataclass

from choir_common.ids import SERVICE_NAMES, ServiceName


@dataclass(frozen=True, slots=True)
class Route:
    """A subject with the services that may publish to it and those that may subscribe to it."""

    subject: str
    publishers: Collection[ServiceName]
    subscribers: Collection[ServiceName]


def accept_message() -> str:
    """gateway → control: InboundMessage → Accepted; the message is stored."""
    return "choir.control.inbox.accept"


def press_button() -> str:
    """gateway → control: Press → Pressed; the decision is durable before the response."""
    return "choir.control.inbox.press"


def request_pairing() -> str:
    """gateway → control: RequestPairing → PairingOffer; an unknown user has written."""
    return "choir.control.pairing.request"


def offer_mail() -> str:
    """gateway → control: MailOffer → MailDecision; what triggers take is stored."""
    return "choir.control.triggers.mail"


def store_card() -> str:
    """gateway → control: CardMessage → Nothing; later Cards carry the stored message id."""
    return "choir.control.cards.keep"


def store_progress() -> str:
    """gateway → control: DeliveryProgress → Nothing; a delivery retry carries the stored progress."""
    return "choir.control.outbox.progress"


def read_history() -> str:
    """gateway → control: HistoryRequest → History."""
    return "choir.control.outbox.history"


def read_channels() -> str:
    """gateway → control: Nothing → ChannelTable."""
    return "choir.control.channels.read"


def read_memory_settings() -> str:
    """memory → control: Nothing → MemorySettings."""
    return "choir.control.memory.read"


def report_usage() -> str:
    """memory → control: UsageReports → Nothing; the usage is in the ledger."""
    return "choir.control.usage.report"


def channels_changed() -> str:
    """control → gateway (published to all): Nothing; they read the channels again."""
    return "choir.event.channels.changed"


def dm_activity() -> str:
    """control → gateway (published to all): DmActivity; typing, idle or a progress card to show."""
    return "choir.event.dm.activity"


def deliver_message() -> str:
    """control → gateway: OutboundMessage → Receipt."""
    return "choir.gateway.deliver"


def erase_gateway_files() -> str:
    """control → gateway: EraseDmFiles → DmFilesErased."""
    return "choir.gateway.erase"


def ensure_memory() -> str:
    """control → memory: EnsureSpace → Nothing."""
    return "choir.memory.ensure"


def query_memory() -> str:
    """control → memory: MemoryQueryTool → MemoryHits."""
    return "choir.memory.query"


def upsert_memory() -> str:
    """control → memory: MemoryUpsertTool → MemoryWritten."""
    return "choir.memory.upsert"


def memory_receipt() -> str:
    """control → memory: ReadSearchReceipt → Receipt."""
    return "choir.memory.receipt"


def memory_hints() -> str:
    """control → memory: ReadHints → ToolHints."""
    return "choir.memory.hints"


def memory_reminders() -> str:
    """control → memory: ReadReminders → Reminders."""
    return "choir.memory.remind"


def embed_texts() -> str:
    """control → memory: EmbedTexts → EmbeddingResult."""
    return "choir.memory.embed"


def add_to_collection() -> str:
    """control → memory: AddDocument → DocumentAdded."""
    return "choir.memory.collections.add"


def read_document_file() -> str:
    """control → memory: FilePart → FileText; the first part of a file."""
    return "choir.memory.collections.read"


def continue_document_file() -> str:
    """control → memory: FilePart → FileText; later parts, for the replica that has the first one."""
    return "choir.memory.collections.continue"


def list_collections() -> str:
    """control → memory: ListCollections → Collections."""
    return "choir.memory.collections.list"


def list_documents() -> str:
    """control → memory: ListDocuments → CollectionDocuments."""
    return "choir.memory.collections.documents"


def follow_folder() -> str:
    """control → memory: FollowFolder → Collections."""
    return "choir.memory.collections.follow"


def remove_from_collection() -> str:
    """control → memory: RemoveDocuments → DocumentsRemoved."""
    return "choir.memory.collections.remove"


def memory_status() -> str:
    """control → memory: Nothing → MemoryStatus."""
    return "choir.memory.status"


def record_units() -> str:
    """control → memory: RecordUnits → UnitsRecorded."""
    return "choir.memory.sessions.record"


def archive_session() -> str:
    """control → memory: ArchivePage → Archived."""
    return "choir.memory.sessions.archive"


def erase_session() -> str:
    """control → memory: EraseSession → SessionErased."""
    return "choir.memory.sessions.erase"


def list_memory() -> str:
    """control → memory: ListMemory → DocumentPage."""
    return "choir.memory.operator.list"


def show_memory() -> str:
    """control → memory: ShowDocument → DocumentDetail."""
    return "choir.memory.operator.show"


def search_memory() -> str:
    """control → memory: MemoryQueryTool → MemoryHits, for an operator."""
    return "choir.memory.operator.search"


def put_memory() -> str:
    """control → memory: MemoryUpsertTool → MemoryWritten, for an operator."""
    return "choir.memory.operator.put"


def delete_memory() -> str:
    """control → memory: DeleteDocument → MemoryErased."""
    return "choir.memory.operator.delete"


def forget_memory() -> str:
    """control → memory: ForgetMemory → ForgetResult."""
    return "choir.memory.operator.forget"


def export_memory() -> str:
    """control → memory: ExportMemory → ExportedPage."""
    return "choir.memory.operator.export"


def import_memory() -> str:
    """control → memory: ImportPart → MemoryImported."""
    return "choir.memory.operator.import"


def audit_memory() -> str:
    """control → memory: AuditQuery → AuditEntries."""
    return "choir.memory.operator.audit"


def memory_feedback() -> str:
    """control → memory: ListFeedback → FeedbackPage."""
    return "choir.memory.operator.feedback"


def memory_state() -> str:
    """control → memory: ReadMemoryState → AgentMemory."""
    return "choir.memory.operator.state"


def reserve_money() -> str:
    """memory → control: ReserveForMemory → MoneyReserved."""
    return "choir.control.money.reserve"


def release_money() -> str:
    """memory → control: ReleaseForMemory → Empty."""
    return "choir.control.money.release"


def close_context() -> str:
    """control → browser: CloseContext → Nothing."""
    return "choir.browser.close"


def browse_page() -> str:
    """control → browser: BrowseRequest → BrowseResponse."""
    return "choir.browser.browse"


def browser_status() -> str:
    """control → browser: Nothing → ComponentStatus."""
    return "choir.browser.status"


def unserved() -> str:
    """Subject without subscribers, for `Bus.ping`: the server itself replies that there are none."""
    return "choir.nobody"


def _routes(
    publisher: ServiceName, subscriber: ServiceName, *subjects: Callable[[], str]
) -> tuple[Route, ...]:
    return tuple(Route(subject(), (publisher,), (subscriber,)) for subject in subjects)


ROUTES: tuple[Route, ...] = (
    *_routes("gateway", "control", accept_message, press_button, store_card, store_progress),
    *_routes("gateway", "control", read_history, read_channels, request_pairing),
    *_routes("gateway", "control", offer_mail),
    *_routes("memory", "control", read_memory_settings, report_usage),
    *_routes("memory", "control", reserve_money, release_money),
    *_routes(
        "control",
        "gateway",
        channels_changed,
        dm_activity,
        deliver_message,
        erase_gateway_files,
    ),
    *_routes("control", "memory", ensure_memory, query_memory, upsert_memory, memory_receipt),
    *_routes("control", "memory", memory_hints, memory_reminders, memory_status, embed_texts),
    *_routes("control", "memory", add_to_collection, list_collections, list_documents),
    *_routes("control", "memory", follow_folder, remove_from_collection, read_document_file),
    *_routes("control", "memory", continue_document_file),
    *_routes("control", "memory", record_units, archive_session, erase_session),
    *_routes("control", "memory", list_memory, show_memory, search_memory, put_memory),
    *_routes("control", "memory", delete_memory, forget_memory, export_memory, import_memory),
    *_routes("control", "memory", audit_memory, memory_feedback, memory_state),
    *_routes("control", "browser", close_context, browse_page, browser_status),
    Route(unserved(), SERVICE_NAMES, ()),
)
