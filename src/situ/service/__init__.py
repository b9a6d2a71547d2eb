"""What a long-running process needs beside its data: rules that change, figures, Prometheus."""
