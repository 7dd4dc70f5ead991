"""The RTL realization, simulated: built with Verilator, driven through its registers and ports."""
