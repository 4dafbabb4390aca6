// The compiled kernels.cu, as the vendor's driver loads it (tools/third_party/gpu/kernels.bzl).
#ifndef LANYARD_GPU_DEVICE_KERNEL_IMAGE_H_
#define LANYARD_GPU_DEVICE_KERNEL_IMAGE_H_

namespace lanyard::gpu {

extern const unsigned char kKernelImage[];

}  // namespace lanyard::gpu

#endif  // LANYARD_GPU_DEVICE_KERNEL_IMAGE_H_
