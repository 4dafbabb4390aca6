/* What hosts and devices both compile, in C too. */
#ifndef LANYARD_DETAIL_HOST_AND_DEVICE_H_
#define LANYARD_DETAIL_HOST_AND_DEVICE_H_

#if defined(__CUDACC__) || defined(__HIP__)
#define LANYARD_HOST_AND_DEVICE __host__ __device__
#define LANYARD_FOR_DEVICES 1
#else
#define LANYARD_HOST_AND_DEVICE
#define LANYARD_FOR_DEVICES 0
#endif

/* Whether it is the devices' code that is being made. */
#if defined(__CUDA_ARCH__) || defined(__HIP_DEVICE_COMPILE__)
#define LANYARD_ON_DEVICE 1
#else
#define LANYARD_ON_DEVICE 0
#endif

#endif /* LANYARD_DETAIL_HOST_AND_DEVICE_H_ */
