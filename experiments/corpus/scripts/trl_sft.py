"""Supervised fine-tuning by TRL on prompts and completions."""

from tempfile import TemporaryDirectory

from datasets import Dataset
from tokenizers import Tokenizer, models, pre_tokenizers
from transformers import LlamaConfig, LlamaForCausalLM, PreTrainedTokenizerFast
from trl import SFTConfig, SFTTrainer

if __name__ == "__main__":
    words = Tokenizer(models.WordLevel({f"w{i}": i for i in range(500)}, unk_token="w0"))  # noqa: S106
    words.pre_tokenizer = pre_tokenizers.Whitespace()
    tokenizer = PreTrainedTokenizerFast(tokenizer_object=words, pad_token="w0", eos_token="w1")  # noqa: S106
    model = LlamaForCausalLM(
        LlamaConfig(vocab_size=500, hidden_size=64, intermediate_size=128, num_hidden_layers=2, num_attention_heads=4)
    )
    rows = Dataset.from_list([{"prompt": "w5 w6 w7", "completion": "w8 w9 " * 8} for _ in range(16)])
    arguments = SFTConfig(
        TemporaryDirectory().name,
        per_device_train_batch_size=4,
        max_steps=2,
        report_to=[],
        save_strategy="no",
        bf16=False,
        max_length=64,
    )
    SFTTrainer(model, args=arguments, train_dataset=rows, processing_class=tokenizer).train()
