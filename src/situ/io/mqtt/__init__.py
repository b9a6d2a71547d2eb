"""MQTT: messages from a broker and to one, and none of them lost."""
