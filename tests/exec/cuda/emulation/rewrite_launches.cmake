# cmake -D SOURCE=... -D TARGET=... -P: a .cu file as C++ (device_code.h). Each launch becomes a named call of its kernel, and the calls
# are declared in front of it.
file(READ ${SOURCE} text)
string(REGEX REPLACE "([a-z_]+)<<<[^;]*>>>\\(" "EMULATED_LAUNCH(\\1)(" text "${text}")
file(WRITE ${TARGET} "#include \"tests/exec/cuda/emulation/device_code.h\"\n#line 1 \"${SOURCE}\"\n${text}")
