"""The paper's experiments: protocols, data, published figures, literal algorithm, training times, report."""
