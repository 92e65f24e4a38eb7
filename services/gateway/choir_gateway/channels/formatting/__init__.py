"""Text with marks for messages: parsing of Markdown, and splitting of long texts. Pure."""
