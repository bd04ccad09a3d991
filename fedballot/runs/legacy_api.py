raise ImportError("the legacy pair must not be used")
