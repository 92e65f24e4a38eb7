"""The routes of a person's erasure refuse what nobody has seen, and change nothing then."""

from choir_common.wire.erasure import PersonErasurePreview
from tests.service.control.world import World


async def test_only_what_a_preview_showed_is_erased(world: World) -> None:
    shown = await world.get("/v1/dms/console/erasure")
    plan = PersonErasurePreview.model_validate_json(shown.content)
    other = {"expected_digest": "0" * 64}
    refused = await world.post("/v1/dms/console/erasure", json=other)
    assert plan.sessions and refused.status_code == 409, refused.text
    assert (await world.get("/v1/dms/nobody/erasure")).status_code == 404
    assert (await world.get("/v1/people/nobody/erasure")).status_code == 404
    assert (await world.post("/v1/dms/nobody/erasure", json=other)).status_code == 404
