"""The browser worker of Choir: one isolated context per running agent."""
