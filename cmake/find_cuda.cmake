# Whether the CUDA device can be built here: the toolkit, nvcc and NCCL. Sets STEPCAST_CUDA.
set(WITH_CUDA AUTO CACHE STRING "build the CUDA device: AUTO (where the toolkit and NCCL are found), ON or OFF")
set(STEPCAST_CUDA OFF)
if(WITH_CUDA STREQUAL "OFF")
  return()
endif()

if(WITH_CUDA STREQUAL "ON")
  find_package(CUDAToolkit REQUIRED)
else()
  find_package(CUDAToolkit QUIET)
endif()
# NCCL has no CMake package; as a Python package it comes as libnccl.so.2 alone.
find_path(NCCL_INCLUDE_DIR nccl.h HINTS ${CUDAToolkit_INCLUDE_DIRS} ENV NCCL_HOME PATH_SUFFIXES include)
find_library(NCCL_LIBRARY NAMES nccl libnccl.so.2 HINTS ${CUDAToolkit_LIBRARY_DIR} ENV NCCL_HOME PATH_SUFFIXES lib lib64)
if(NOT CUDAToolkit_FOUND OR NOT NCCL_INCLUDE_DIR OR NOT NCCL_LIBRARY OR NOT CUDAToolkit_NVCC_EXECUTABLE)
  if(WITH_CUDA STREQUAL "ON")
    message(FATAL_ERROR "WITH_CUDA=ON: CUDA toolkit ${CUDAToolkit_VERSION}, nvcc ${CUDAToolkit_NVCC_EXECUTABLE}, "
                        "nccl.h ${NCCL_INCLUDE_DIR}, libnccl ${NCCL_LIBRARY}; expected all four (NCCL_HOME names NCCL's folder)")
  endif()
  message(STATUS "no CUDA toolkit with NCCL: the CUDA device is not built")
  return()
endif()

set(CMAKE_CUDA_COMPILER ${CUDAToolkit_NVCC_EXECUTABLE})
if(NOT DEFINED CMAKE_CUDA_ARCHITECTURES AND NOT DEFINED ENV{CUDAARCHS})
  set(CMAKE_CUDA_ARCHITECTURES "80;90")
endif()
enable_language(CUDA)
set(STEPCAST_CUDA ON)

# For --version.
set(cuda_version ${CUDAToolkit_VERSION})
file(STRINGS ${NCCL_INCLUDE_DIR}/nccl.h nccl_version REGEX "^#define NCCL_(MAJOR|MINOR|PATCH) ")
string(REGEX REPLACE "#define NCCL_[A-Z]+ +" "" nccl_version "${nccl_version}")
string(REPLACE ";" "." nccl_version "${nccl_version}")
