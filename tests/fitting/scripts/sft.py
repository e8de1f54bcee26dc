"""TRL's SFTTrainer on a small Llama; its batch is SFTConfig's own."""

from tempfile import TemporaryDirectory

from datasets import Dataset
from tokenizers import Tokenizer, models
from transformers import LlamaConfig, LlamaForCausalLM, PreTrainedTokenizerFast
from trl import SFTConfig, SFTTrainer

if __name__ == "__main__":
    config = LlamaConfig(
        vocab_size=8000, hidden_size=256, intermediate_size=512, num_hidden_layers=4, num_attention_heads=4
    )
    model = LlamaForCausalLM(config)
    words = Tokenizer(models.WordLevel({f"w{i}": i for i in range(8000)}, unk_token="w0"))  # noqa: S106
    tokenizer = PreTrainedTokenizerFast(tokenizer_object=words, pad_token="w0", eos_token="w1")  # noqa: S106
    rows = Dataset.from_list([{"input_ids": [i % 8000] * 256} for i in range(64)])
    arguments = SFTConfig(
        TemporaryDirectory().name,
        per_device_train_batch_size=16,
        max_steps=3,
        report_to=[],
        save_strategy="no",
        gradient_checkpointing=False,
        bf16=False,
    )
    SFTTrainer(model, args=arguments, train_dataset=rows, processing_class=tokenizer).train()
