/* struct cudaDeviceProp as CUDA 12 and CUDA 13 lay it out (driver_types.h of 12.4 and 13.0), as far as it is filled.
 *
 * CUDA 13 dropped fields in the middle (clockRate, deviceOverlap, computeMode, ...), so every field after them lies
 * elsewhere: an answer in the wrong layout gives PyTorch a wrong number of threads per multiprocessor, and the
 * temporaries of its reductions swell. The static assertions hold the offsets that the real headers give. */
#ifndef COOPSIM_PHANTOM_PROPERTIES_H
#define COOPSIM_PHANTOM_PROPERTIES_H

#include <stddef.h>
#include <stdint.h>

#define COMMON_HEAD                                                                                                  \
  char name[256], uuid[16], luid[8];                                                                                 \
  unsigned luid_node_mask;                                                                                           \
  size_t total_global_mem, shared_per_block;                                                                         \
  int regs_per_block, warp_size;                                                                                     \
  size_t mem_pitch;                                                                                                  \
  int max_threads_per_block, max_threads_dim[3], max_grid_size[3];

typedef struct {
  COMMON_HEAD
  int clock_rate;
  size_t total_const_mem;
  int major, minor;
  size_t texture_alignment, texture_pitch_alignment;
  int device_overlap, multi_processor_count, kernel_timeout, integrated, can_map_host_memory, compute_mode;
  int texture_and_surface_limits[40];
  size_t surface_alignment;
  int concurrent_kernels, ecc_enabled, pci_bus, pci_device, pci_domain, tcc_driver;
  int async_engine_count, unified_addressing, memory_clock_rate, memory_bus_width, l2_cache_size, persisting_l2;
  int max_threads_per_sm, stream_priorities, global_l1, local_l1;
  size_t shared_per_sm;
  int regs_per_sm, managed_memory, multi_gpu_board, multi_gpu_group, native_atomics, single_to_double_ratio;
  int pageable_access, concurrent_managed, compute_preemption, registered_host_pointer, cooperative_launch;
  int cooperative_multi_device;
  size_t shared_optin;
  int pageable_tables, direct_managed, max_blocks_per_sm, window_size;
  size_t reserved_shared_per_block;
  char tail[1032 - 728];
} Properties12;

typedef struct {
  COMMON_HEAD
  size_t total_const_mem;
  int major, minor;
  size_t texture_alignment, texture_pitch_alignment;
  int multi_processor_count, integrated, can_map_host_memory;
  int texture_and_surface_limits[38];
  size_t surface_alignment;
  int concurrent_kernels, ecc_enabled, pci_bus, pci_device, pci_domain, tcc_driver;
  int async_engine_count, unified_addressing, memory_bus_width, l2_cache_size, persisting_l2;
  int max_threads_per_sm, stream_priorities, global_l1, local_l1;
  size_t shared_per_sm;
  int regs_per_sm, managed_memory, multi_gpu_board, multi_gpu_group, native_atomics;
  int pageable_access, concurrent_managed, compute_preemption, registered_host_pointer, cooperative_launch;
  size_t shared_optin;
  int pageable_tables, direct_managed, max_blocks_per_sm, window_size;
  size_t reserved_shared_per_block;
  char tail[1008 - 704];
} Properties13;

#define AT(type, field, offset) _Static_assert(offsetof(type, field) == (offset), #type "." #field)
AT(Properties12, total_global_mem, 288); AT(Properties13, total_global_mem, 288);
AT(Properties12, clock_rate, 348);       AT(Properties13, total_const_mem, 352);
AT(Properties12, major, 360);            AT(Properties13, major, 360);
AT(Properties12, multi_processor_count, 388); AT(Properties13, multi_processor_count, 384);
AT(Properties12, surface_alignment, 568);     AT(Properties13, surface_alignment, 552);
AT(Properties12, l2_cache_size, 616);         AT(Properties13, l2_cache_size, 596);
AT(Properties12, max_threads_per_sm, 624);    AT(Properties13, max_threads_per_sm, 604);
AT(Properties12, shared_per_sm, 640);         AT(Properties13, shared_per_sm, 624);
AT(Properties12, cooperative_launch, 688);    AT(Properties13, cooperative_launch, 668);
AT(Properties12, shared_optin, 696);          AT(Properties13, shared_optin, 672);
AT(Properties12, max_blocks_per_sm, 712);     AT(Properties13, max_blocks_per_sm, 688);
_Static_assert(sizeof(Properties12) == 1032, "size of CUDA 12's cudaDeviceProp");
_Static_assert(sizeof(Properties13) == 1008, "size of CUDA 13's cudaDeviceProp");

#endif
