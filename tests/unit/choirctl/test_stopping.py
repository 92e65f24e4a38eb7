"""When a chat that waits for an answer learns that none comes before the next start."""

from choirctl.chat.stop_detection import SILENT_S, STOPPED_S, AnswerMonitor


def test_a_stop_of_choir_on_this_machine_is_told_at_once() -> None:
    prospect = AnswerMonitor("main", "sock")
    assert prospect.check(1, is_up=True, is_connected=True, is_stopped=False) is None
    why = prospect.check(2, is_up=False, is_connected=False, is_stopped=False)
    assert why is not None and why.startswith("Choir was stopped before main answered.")
    assert "The message is stored" in why and "`choirctl up`" in why


def test_a_choir_elsewhere_is_given_up_after_a_long_silence_alone() -> None:
    prospect = AnswerMonitor("main", "https://choir.example")
    for since in (10.0, 10.0 + SILENT_S):
        # heard in between, as after a crash of choird
        assert prospect.check(since, is_up=True, is_connected=False, is_stopped=False) is None
        end = since + SILENT_S - 1
        assert prospect.check(end, is_up=True, is_connected=False, is_stopped=False) is None
        assert prospect.check(end, is_up=True, is_connected=True, is_stopped=False) is None
    assert prospect.check(500, is_up=True, is_connected=False, is_stopped=False) is None
    why = prospect.check(500 + SILENT_S, is_up=True, is_connected=False, is_stopped=False)
    assert why is not None and "https://choir.example" in why and "The message is stored" in why


def test_a_stopped_agent_is_told_of_but_a_restarted_one_is_waited_for() -> None:
    prospect = AnswerMonitor("main", "sock")
    assert prospect.check(10, is_up=True, is_connected=True, is_stopped=True) is None
    restarted = 10 + STOPPED_S - 1
    assert prospect.check(restarted, is_up=True, is_connected=True, is_stopped=False) is None
    assert prospect.check(100, is_up=True, is_connected=True, is_stopped=True) is None
    why = prospect.check(100 + STOPPED_S, is_up=True, is_connected=True, is_stopped=True)
    assert why is not None and why.startswith("main was stopped before it answered.")
    assert "`choirctl agent start main`" in why
