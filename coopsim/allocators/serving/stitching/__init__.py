"""What GMLake serves requests from: chunks of physical memory, blocks of them, and stitched blocks."""
