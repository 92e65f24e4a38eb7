"""Detect rules that would weaken safety: pure.

A rule is injected with every message, so a single "skip the safety check" would be repeated with each.
The extracting model judges rules as well, in any language; this check is independent of it, and supports
English and Chinese.
"""

import re

_CLAUSES = re.compile(r"[.;!?,\n。；！？，、]+|\b(?:and|but|so|then)\b", re.IGNORECASE)
_GUARDED = (
    r"(?:safety|securit\w+|safeguards?|guard\s?-?rails?|sandbox\w*|approvals?|confirmations?|permissions?"
    r"|authori[sz]ations?|authentication|verifications?|validations?|warnings?|certificates?|(?:safety\s+)?checks?"
    r"|restrictions?|reviews?|audits?)"
)
_OMITTED = (
    r"(?:skip\w*|bypass\w*|disabl\w+|deactivat\w+|ignor\w+|circumvent\w*|overrid\w+|suppress\w*|omit\w*|forgo"
    r"|evad\w+|drop\w*|remov\w+|without|(?:turn|switch)\w*\s+off|(?:get|work)\w*\s+around|leave\s+out|no\s+more)"
)
_ASKED = (
    r"(?:confirm\w*|verif\w+|warn\w*|double-?check\w*"
    r"|(?:ask|check|wait|request|get)\w*\b(?:\W+\w+){0,4}?\W+"
    r"(?:before\w*|first|approvals?|confirmations?|permissions?|consent|authori[sz]ation))"
)
_NEGATED = (
    r"(?:do\s+not|don['’]?t|never|no\s+longer|stop|quit|without|no\s+need\s+to|need\s?n['’]?t|need\s+not"
    r"|instead\s+of|not\s+have\s+to)"
)
_FILL = r"(?:\W+\w+){0,4}?\W+"
# "turn the safety checks off", command-line flags that do the same, and advance consent
_WEAKENING_PATTERNS = (
    rf"{_OMITTED}{_FILL}{_GUARDED}\b",
    rf"(?:turn|switch)\w*\b{_FILL}{_GUARDED}\W+off\b",
    rf"{_NEGATED}(?:\W+\w+){{0,2}}?\W+{_ASKED}\b",
    r"auto-?\s?approv\w+|approve\w*\W+(?:\w+\W+)?(?:everything|all|automatically|blindly)\b",
    r"(?:assume|presume)\w*\W+(?:\w+\W+){0,2}(?:consent|permission|approval|yes)\b",
    r"--(?:no-verify|insecure|force-yes|dangerously[\w-]*|skip-[\w-]+|no-check[\w-]*)",
)
_ENGLISH = re.compile(
    "|".join(rf"(?<!\w)(?:{pattern})" for pattern in _WEAKENING_PATTERNS), re.IGNORECASE
)
_NOT_BEFORE = re.compile(
    r"\b(?:never|not|no|don['’]?t|must\s?n['’]?t|should\s?n['’]?t|refuse\w*|forbid\w*)\b",
    re.IGNORECASE,
)
_GUARDED_ZH = (
    "(?:安全|檢查|检查|確認|确认|核准|批准|審批|审批|許可|许可"
    "|權限|权限|授權|授权|驗證|验证|警告|限制|防護|防护)"
)
_OMITTED_ZH = (
    "(?:跳過|跳过|略過|略过|繞過|绕过|忽略|無視|无视|關閉|关闭|關掉|关掉|停用|禁用|省略|取消)"
)
_NEGATED_ZH = "(?:不要|不用|無需|无需|不必|不需要|別再|别再|別|别|免)"
_CHINESE = re.compile(
    rf"{_OMITTED_ZH}.{{0,8}}{_GUARDED_ZH}|{_NEGATED_ZH}.{{0,6}}(?:檢查|检查|確認|确认|徵求|征求|詢問|询问|問我|问我|驗證|验证|警告)"
)
_NOT_BEFORE_ZH = re.compile(
    "(?:不要|不可|不能|不得|不准|別|别|切勿|勿|絕不|绝不|從不|从不|永不|永遠不|永远不)$"
)


def weakens_safety(text: str) -> bool:
    """Return whether a rule asks to skip, hide or weaken a check, a warning or an approval.

    "Never skip the safety check" asks for the opposite and does not count.
    """
    return any(_asks_for_it(clause) for clause in _CLAUSES.split(text))


def _asks_for_it(clause: str) -> bool:
    match = _ENGLISH.search(clause)
    if match is not None and not _NOT_BEFORE.search(clause[: match.start()]):
        return True
    match = _CHINESE.search(clause)
    if match is None or _NOT_BEFORE_ZH.search(clause[: match.start()]):
        return False
    # 不要跳過安全檢查 ("do not skip the safety check"): the omission is negated
    return re.search(f"^{_NEGATED_ZH}.{{0,3}}{_OMITTED_ZH}", match.group()) is None
