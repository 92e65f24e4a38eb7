"""`/v1/agents/{agent_id}/jobs`: start a core job without asking the agent's model."""

from fastapi import APIRouter, Request

from choir_common.http.body import openapi_body, parse_request_body
from choir_common.http.routers import ServiceRouter
from choir_common.wire.core_jobs import JobQueued, NewJob
from choir_control.conversations.job_requests import JobRequests


def job_routes(jobs: JobRequests) -> APIRouter:
    """Return the router of the jobs."""
    router = ServiceRouter(prefix="/agents", tags=["agents"])

    @router.post("/{agent_id}/jobs", status_code=202, openapi_extra=openapi_body(NewJob))
    async def start_job(agent_id: str, request: Request) -> JobQueued:
        """Start a core job with this task; it reports in the agent's conversation.

        A repetition with the same `idempotency_key` starts no second job. 409 if the agent does not run.
        """
        return await jobs.start(agent_id, await parse_request_body(request, NewJob))

    return router
