"""Adapter for the Gemini API (`generateContent`), through the google-genai SDK."""
