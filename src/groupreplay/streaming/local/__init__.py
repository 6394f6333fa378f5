"""What embedded processes need on this machine: jars, Java, trust stores, the broker, a process guard."""
