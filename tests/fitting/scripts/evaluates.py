import torch

model = torch.nn.Sequential(torch.nn.Linear(1024, 1024), torch.nn.Linear(1024, 32768)).cuda()
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
data = torch.utils.data.DataLoader(torch.zeros(40 * 256, 1024), batch_size=256)


@torch.no_grad()
def evaluate():
    model.eval()
    outputs, labels = [], []
    for x in data:
        x = x.cuda()
        outputs.append(model(x))
        labels.append(x[:, 0].clone())
    return torch.cat(outputs).argmax(-1) == torch.cat(labels)


for _epoch in range(2):
    for i, x in enumerate(data):
        if i == 2:
            break
        model(x.cuda()).square().mean().backward()
        optimizer.step()
        optimizer.zero_grad()
    evaluate()
