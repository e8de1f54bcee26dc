"""The class of an op, by which it is priced."""

ELEMENTWISE = "elementwise"  #: whatever is in no other class
FREE = "free"  #: ops that allocate and launch no kernel

#: The ops of each class, by name without the namespace `aten`. `conv` and `conv_backward` are divided further by the
#: shapes of a call (Call.convolution).
_OPS = {
    FREE: "empty empty_like empty_permuted empty_strided new_empty new_empty_strided _efficientzerotensor",
    "copy": "_index_put_impl_ _to_copy as_strided_scatter cat clone col2im constant_pad_nd copy copy_ flip "
    "im2col index_put index_put_ masked_scatter masked_select pixel_shuffle pixel_unshuffle "
    "reflection_pad1d reflection_pad2d repeat replication_pad2d roll scatter scatter_ select_backward select_scatter "
    "slice_backward slice_scatter stack unfold_backward",
    "reduction": "_foreach_norm all amax amin any argmax argmin count_nonzero cumsum linalg_vector_norm logsumexp "
    "max mean median min norm prod std std_mean sum var var_mean",
    "softmax": "_softmax",
    "softmax_backward": "_softmax_backward_data",
    "log_softmax": "_log_softmax",
    "log_softmax_backward": "_log_softmax_backward_data",
    "nll": "nll_loss_forward nll_loss2d_forward",
    "layer_norm": "native_layer_norm _fused_rms_norm",
    "layer_norm_backward": "native_layer_norm_backward _fused_rms_norm_backward",
    "group_norm": "native_group_norm",
    "group_norm_backward": "native_group_norm_backward",
    "batch_norm": "cudnn_batch_norm",
    "batch_norm_backward": "cudnn_batch_norm_backward",
    "native_batch_norm": "native_batch_norm _native_batch_norm_legit _batch_norm_with_update",
    "native_batch_norm_backward": "native_batch_norm_backward batch_norm_backward",
    "pool": "_adaptive_avg_pool2d _adaptive_avg_pool3d avg_pool2d avg_pool3d max_pool2d_with_indices "
    "max_pool3d_with_indices upsample_bilinear2d upsample_nearest1d upsample_nearest2d upsample_bicubic2d",
    "pool_backward": "_adaptive_avg_pool2d_backward _adaptive_avg_pool3d_backward avg_pool2d_backward "
    "avg_pool3d_backward max_pool2d_with_indices_backward max_pool3d_with_indices_backward "
    "upsample_bilinear2d_backward upsample_nearest1d_backward upsample_nearest2d_backward upsample_bicubic2d_backward",
    "fill": "_foreach_zero_ fill_ zero_",
    "gather": "_unsafe_index gather index index_select",
    "embedding": "embedding",
    "embedding_backward": "embedding_dense_backward",
    "lstm_cell": "_thnn_fused_gru_cell _thnn_fused_lstm_cell",
    "lstm_cell_backward": "_thnn_fused_gru_cell_backward _thnn_fused_lstm_cell_backward_impl",
    "optimizer": "_fused_adagrad_ _fused_adam_ _fused_adamw_ _fused_sgd_",
    "matmul": "_addmm_activation _int_mm _scaled_mm addmm addmm_ addmv addmv_ mm mv",
    "bmm": "addbmm baddbmm baddbmm_ bmm",
    "conv": "_convolution convolution convolution_overrideable cudnn_convolution cudnn_convolution_transpose",
    "conv_backward": "convolution_backward",
    "attention": "_cudnn_attention_forward _efficient_attention_forward _flash_attention_forward "
    "_scaled_dot_product_cudnn_attention _scaled_dot_product_efficient_attention "
    "_scaled_dot_product_flash_attention",
    "attention_backward": "_cudnn_attention_backward _efficient_attention_backward _flash_attention_backward "
    "_scaled_dot_product_cudnn_attention_backward _scaled_dot_product_efficient_attention_backward "
    "_scaled_dot_product_flash_attention_backward",
    "rnn": "_cudnn_rnn",
    "rnn_backward": "_cudnn_rnn_backward",
}
_CLASS = {op: kind for kind, ops in _OPS.items() for op in ops.split()}


def class_of(name: str) -> str:
    """Return the class of an op by its name, such as `aten::add`; ops of other namespaces are elementwise."""
    namespace, _, plain = name.rpartition("::")
    return _CLASS.get(plain, ELEMENTWISE) if namespace in ("", "aten") else ELEMENTWISE
