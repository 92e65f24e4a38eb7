"""What all tests share: the profile for long random walks."""

from tests.support.steps import register_profiles

register_profiles()
