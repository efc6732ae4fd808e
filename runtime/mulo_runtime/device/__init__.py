"""The lane's side of a device: what goes up before a pass, what stays there, and what comes back."""
