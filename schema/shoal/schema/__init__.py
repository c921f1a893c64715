"""The contract: models, ontology, tags, errors, wire format, limits, migrations and shared SQL. No I/O."""
