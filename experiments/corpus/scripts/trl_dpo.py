"""Direct preference optimisation by TRL, with LoRA, whose base is the reference."""

from tempfile import TemporaryDirectory

from datasets import Dataset
from peft import LoraConfig
from tokenizers import Tokenizer, models, pre_tokenizers
from transformers import LlamaConfig, LlamaForCausalLM, PreTrainedTokenizerFast
from trl import DPOConfig, DPOTrainer

if __name__ == "__main__":
    words = Tokenizer(models.WordLevel({f"w{i}": i for i in range(500)}, unk_token="w0"))  # noqa: S106
    words.pre_tokenizer = pre_tokenizers.Whitespace()
    tokenizer = PreTrainedTokenizerFast(tokenizer_object=words, pad_token="w0", eos_token="w1")  # noqa: S106
    model = LlamaForCausalLM(
        LlamaConfig(vocab_size=500, hidden_size=64, intermediate_size=128, num_hidden_layers=2, num_attention_heads=4)
    )
    row = {"prompt": "w5 w6", "chosen": "w8 w9 " * 6, "rejected": "w7 " * 9}
    arguments = DPOConfig(
        TemporaryDirectory().name,
        per_device_train_batch_size=4,
        max_steps=2,
        report_to=[],
        save_strategy="no",
        bf16=False,
    )
    DPOTrainer(
        model,
        args=arguments,
        train_dataset=Dataset.from_list([row] * 16),
        processing_class=tokenizer,
        peft_config=LoraConfig(r=4, target_modules="all-linear"),
    ).train()
