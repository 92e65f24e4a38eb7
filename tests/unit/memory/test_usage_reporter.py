"""What memory's calls used reaches control once, also after a lost response."""

from dataclasses import replace

from choir_memory.usage.reporter import work_for
from choir_models.model import Completion
from tests.support.usage_fakes import RecordingLedger, make_reporter

COMPLETION = Completion("text", (), "m", "stop", 1_000, 50, 1.0, cached_tokens=600)


async def test_a_lost_response_repeats_the_same_reports() -> None:
    ledger = RecordingLedger()
    reporter = make_reporter(ledger)
    with work_for("main"):
        reporter.add_completion(COMPLETION)
    ledger.is_down = True
    await reporter.send()
    reporter.add_completion(replace(COMPLETION, prompt_tokens=5))
    ledger.is_down = False
    await reporter.send()
    first, again, second = ledger.reports
    assert first == again and first.report_id != second.report_id
    assert (first.agent_id, first.prompt_tokens, first.cached_tokens) == ("main", 1_000, 600)
    assert second.agent_id is None
    await reporter.send()
    assert len(ledger.reports) == 3


async def test_requests_for_vectors_are_summed_and_estimated_without_a_count() -> None:
    ledger = RecordingLedger()
    reporter = make_reporter(ledger)
    for _ in range(3):
        reporter.add_embedding("vectors", ["some words"], 4)
    reporter.add_embedding("other", ["x" * 400], None)
    await reporter.send()
    sums = {it.model: (it.kind, it.calls, it.prompt_tokens) for it in ledger.reports}
    assert sums == {"vectors": ("embedding", 3, 12), "other": ("embedding", 1, 101)}


async def test_a_long_name_of_a_model_is_cut_and_the_call_is_counted() -> None:
    ledger = RecordingLedger()
    reporter = make_reporter(ledger)
    reporter.add_completion(replace(COMPLETION, model="m" * 1_000))
    await reporter.send()
    assert [report.model for report in ledger.reports] == ["m" * 200]
