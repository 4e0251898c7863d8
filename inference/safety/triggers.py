"""What is told of a finding: never more of the text than its policy has kept."""

from __future__ import annotations

import hashlib
import hmac
import time

from inference.protocol.policies import Side
from inference.protocol.reports import Trigger
from inference.protocol.requests import GenerationRequest
from inference.safety.checks import Checks
from inference.safety.findings import Finding

LONGEST_TEXT = 2000  # characters that are kept of a span


def trigger_of(finding: Finding, side: Side, request: GenerationRequest, checks: Checks) -> Trigger:
    """Return the report of a finding."""
    policy = checks.policy
    return Trigger(
        message=request.id,
        organization=request.organization,
        key=request.key,
        model=request.model,
        policy=policy.name,
        check=finding.check,
        category=finding.category,
        action=finding.action,
        side=side,
        position=finding.start,
        score=round(finding.score, 4),
        span=hmac.digest(checks.span_key, finding.text.encode(errors="replace"), hashlib.sha256).hex(),
        text=finding.text[:LONGEST_TEXT] if policy.keep_text_days else "",
        keep_days=policy.keep_text_days,
        found_at=time.time(),
    )
