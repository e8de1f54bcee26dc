"""A reward model by TRL: one number per answer, pairs compared."""

from tempfile import TemporaryDirectory

from datasets import Dataset
from tokenizers import Tokenizer, models, pre_tokenizers
from transformers import LlamaConfig, LlamaForSequenceClassification, PreTrainedTokenizerFast
from trl import RewardConfig, RewardTrainer

if __name__ == "__main__":
    words = Tokenizer(models.WordLevel({f"w{i}": i for i in range(500)}, unk_token="w0"))  # noqa: S106
    words.pre_tokenizer = pre_tokenizers.Whitespace()
    tokenizer = PreTrainedTokenizerFast(tokenizer_object=words, pad_token="w0", eos_token="w1")  # noqa: S106
    config = LlamaConfig(
        vocab_size=500, hidden_size=64, intermediate_size=128, num_hidden_layers=2, num_attention_heads=4
    )
    config.num_labels, config.pad_token_id = 1, 0
    row = {"chosen": "w8 w9 " * 6, "rejected": "w7 " * 9}
    arguments = RewardConfig(
        TemporaryDirectory().name,
        per_device_train_batch_size=4,
        max_steps=2,
        report_to=[],
        save_strategy="no",
        bf16=False,
    )
    RewardTrainer(
        LlamaForSequenceClassification(config),
        args=arguments,
        train_dataset=Dataset.from_list([row] * 16),
        processing_class=tokenizer,
    ).train()
