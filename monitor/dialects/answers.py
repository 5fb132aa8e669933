"""What an answer without a readable page means: a verdict and a sentence each. It reads no metrics."""

from __future__ import annotations

from monitor.errors import ExpositionError
from monitor.model.reading import Verdict

#: Words in the body of a 503 by which a server says that it is still loading.
_STARTING_WORDS = (b"loading", b"starting", b"initializ", b"warming", b"not ready")

_SENTENCES = {
    400: "HTTP 400: bad request",
    401: "HTTP 401: credentials wanted (send Authorization: Bearer ...)",
    403: "HTTP 403: credentials refused",
    404: "HTTP 404: metrics not enabled or wrong path",
    405: "HTTP 405: not a metrics path",
    407: "HTTP 407: a proxy wants credentials",
    429: "HTTP 429: asked too often",
    500: "HTTP 500: the server failed to print its metrics (inference may be unharmed)",
    501: "HTTP 501: metrics not enabled (llama-server needs --metrics)",
    502: "HTTP 502: the proxy got no answer from the server",
    504: "HTTP 504: the proxy waited for the server in vain",
}


def judge_status(status: int, body: bytes = b"") -> tuple[Verdict, str]:
    """The verdict on an answer that is not 200. A 503 is a start only where the server says so, or says nothing."""
    if status == 503:
        text = body[:4096].lower()
        if not text.strip() or any(word in text for word in _STARTING_WORDS):
            return Verdict.STARTING, "HTTP 503: the server is loading its model"
        return Verdict.SCRAPE_ERROR, "HTTP 503: service unavailable"
    if status == 400 and b"model" in body[:4096].lower():
        return Verdict.SCRAPE_ERROR, (
            "HTTP 400: per-model query required (a llama.cpp router: each such scrape would load and keep a model)"
        )
    if 300 <= status < 400:
        return Verdict.SCRAPE_ERROR, f"HTTP {status}: a redirect that was not followed"
    return Verdict.SCRAPE_ERROR, _SENTENCES.get(status, f"HTTP {status}")


def judge_body(error: ExpositionError) -> tuple[Verdict, str]:
    """The verdict on a body that is no whole page."""
    return Verdict.SCRAPE_ERROR, str(error)
