"""How numbers are shown to people: as text, as drawings for page and report, as pictures for chats. It owns no data."""
