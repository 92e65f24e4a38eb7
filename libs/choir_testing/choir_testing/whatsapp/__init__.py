"""Fake of Meta's Cloud API for WhatsApp: strict calls, signed webhooks, statuses and the 24-hour window.

Written from Meta's documentation of the Cloud API (version 25). What is not documented is refused.
"""

from choir_testing.whatsapp.server import FakeWhatsApp as FakeWhatsApp
from choir_testing.whatsapp.server import run_fake_whatsapp as run_fake_whatsapp
from choir_testing.whatsapp.user import FakeWhatsAppUser as FakeWhatsAppUser
