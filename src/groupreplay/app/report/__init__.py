"""The timeline of groups: read from a capture or a live topic, as a document, as one HTML file, and as SVG."""
