"""What the compiled core is made of: the compiler's decorator, and the state arrays with their named columns."""
