"""The faces of the memory, for both ends: the tools, MCP, REST, and the one gate in front of them."""
