// Macros for code that is compiled for hosts and devices.
#ifndef LANYARD_GPU_HOST_AND_DEVICE_H_
#define LANYARD_GPU_HOST_AND_DEVICE_H_

#if defined(__CUDACC__) || defined(__HIP__)
#define LANYARD_HOST_AND_DEVICE __host__ __device__
#define LANYARD_FOR_DEVICES 1
#else
#define LANYARD_HOST_AND_DEVICE
#define LANYARD_FOR_DEVICES 0
#endif

#endif  // LANYARD_GPU_HOST_AND_DEVICE_H_
