#!/usr/bin/env python3
"""Makes the cases batch_*: inputs that carry the batch, once, twice or not at all, by several exporters.

    make_batch.py        writes batch_*/model.onnx, data.npz and expected.json, with PyTorch's losses in float64

Needs the packages of tests/networks/requirements.txt.
"""
import json
import pathlib
import tempfile
import warnings

import numpy as np
import onnx
import torch
warnings.filterwarnings('ignore')
import torch.nn as nn, torch.nn.functional as F
D=torch.export.Dim
HERE = pathlib.Path(__file__).resolve().parent
CASES = {"mask_list": "batch_mask_lists",
         "mask_dynopt": "batch_mask_dynamo",
         "mask_legacy_fixed": "batch_mask_fixed",
         "mask_fixed4": "batch_mask_fixed_four",
         "adj_list": "batch_adjacency_lists",
         "adj_dyn": "batch_adjacency_dynamo",
         "adj_fixed": "batch_adjacency_fixed",
         "wav_b1": "batch_scalars_of_one",
         "wav_dyn": "batch_scalars_dynamo",
         "table": "batch_table",
         "inside": "batch_loss_within",
         "rnn_ntc_list_55": "batch_scores_recurrent",
         "tnc_list_55": "batch_scores_turned",
         "tnc_fixed_64": "batch_scores_turned_fixed",
         "seq_legacy": "batch_open_length",
         "seq_dyn": "batch_open_length_dynamo",
         "edge_dyn": "batch_edges",
         "tuples": "batch_tuples",
         "tuples_parts": "batch_tuples_parts",
         "tuples_outside": "batch_tuples_outside"}
rng=np.random.default_rng(5)
def path(name):
    folder=HERE/CASES[name] if name in CASES else pathlib.Path(tempfile.mkdtemp())
    folder.mkdir(exist_ok=True)
    return str(folder/'model.onnx')
def legacy(m,args,name,names,outs,axes):
    torch.onnx.export(m.eval().float(),args,path(name),dynamo=False,input_names=names,output_names=outs,dynamic_axes=axes,do_constant_folding=True)
def dyn(m,args,name,names,outs,shapes,opt=True):
    where=path(name)
    torch.onnx.export(m.eval().float(),args,where,dynamo=True,input_names=names,output_names=outs,dynamic_shapes=shapes,optimize=opt,external_data=False,verbose=False)
    made=onnx.load(where)
    for node in made.graph.node:    # which name files of the machine
        for i in reversed(range(len(node.metadata_props))):
            if 'stack_trace' in node.metadata_props[i].key: del node.metadata_props[i]
    onnx.save(made,where)
def run(m,batches,loss,lr):
    m=m.double(); losses=[]
    for b in batches:
        for p in m.parameters(): p.grad=None
        l=loss(m,b); l.backward(); losses.append(float(l))
        with torch.no_grad():
            for p in m.parameters(): p-=lr*p.grad
    return losses
def save(name,flags,losses,data,**kw):
    if name not in CASES: return
    np.savez(HERE/CASES[name]/'data.npz',**data)
    e=dict(model='model.onnx',data='data.npz',flags=flags,losses=losses,source='../make_batch.py',**kw)
    (HERE/CASES[name]/'expected.json').write_text(json.dumps(e,indent=1)+'\n')
def refuse(name,flags,text,data,**kw):
    np.savez(HERE/CASES[name]/'data.npz',**data)
    e=dict(model='model.onnx',data='data.npz',flags=flags,refused=text,source='../make_batch.py',**kw)
    (HERE/CASES[name]/'expected.json').write_text(json.dumps(e,indent=1)+'\n')
def f32(*s): return rng.standard_normal(s).astype(np.float32)
T64=lambda a: torch.tensor(a).double() if a.dtype.kind=='f' else torch.tensor(a)
def chunks(n,b,steps):
    per=(n+b-1)//b
    return [slice((s%per)*b,min(n,(s%per)*b+b)) for s in range(steps)]

# shared mask T=N, three exporters
class Masked(nn.Module):
    def __init__(s):
        super().__init__(); s.q=nn.Linear(4,4); s.k=nn.Linear(4,4); s.o=nn.Linear(4,3)
    def forward(s,mask,x):
        a=(s.q(x)@s.k(x).transpose(1,2)/2+mask).softmax(-1)
        return s.o((a@x).mean(1))
torch.manual_seed(0)
N=7;T=7
x=f32(N,T,4); mask=np.triu(np.full((T,T),-1e4,np.float32),1); y=rng.integers(0,3,N)
import copy
def mk(name,exporter):
    torch.manual_seed(0); m=Masked()
    ex=(torch.zeros(5,5),torch.randn(3,5,4))
    if exporter=='list': legacy(m,ex,name,['mask','x'],['s'],{'mask':[0,1],'x':[0,1]})
    elif exporter=='legacy_fixed': legacy(m,(torch.zeros(7,7),torch.randn(7,7,4)),name,['mask','x'],['s'],{})
    elif exporter=='fixed4': legacy(m,(torch.zeros(7,7),torch.randn(4,7,4)),name,['mask','x'],['s'],{})
    else: dyn(m,ex,name,['mask','x'],['s'],{'mask':{0:D.DYNAMIC,1:D.DYNAMIC},'x':{0:D.DYNAMIC,1:D.DYNAMIC}},exporter=='dynopt')
    m2=Masked(); m2.load_state_dict(m.state_dict())
    L=run(m2,[(T64(x)[c],T64(y)[c]) for c in chunks(N,3,6)],lambda m,b:F.cross_entropy(m(T64(mask),b[0]),b[1]),.1)
    save(name,['--loss','cross-entropy','--batch-size','3','--steps','6','--lr','0.1'],L,dict(mask=mask,x=x,target=y))
for e in ['list','dynopt','dynnoopt','legacy_fixed','fixed4']: mk('mask_'+e,e)

# adjacency
class Gcn(nn.Module):
    def __init__(s):
        super().__init__(); s.a=nn.Linear(4,6); s.b=nn.Linear(6,3)
    def forward(s,adj,x): return s.b(adj@torch.relu(adj@s.a(x)))
N=9
adj=(rng.random((N,N))<.4).astype(np.float32); adj=adj/np.maximum(adj.sum(1,keepdims=True),1)
x=f32(N,4); y=rng.integers(0,3,N)
for e in ['list','dyn','fixed']:
    torch.manual_seed(1); m=Gcn(); ex=(torch.zeros(5,5),torch.randn(5,4)); n='adj_'+e
    if e=='list': legacy(m,ex,n,['adj','x'],['s'],{'adj':[0,1],'x':[0]})
    elif e=='fixed': legacy(m,(torch.zeros(9,9),torch.randn(9,4)),n,['adj','x'],['s'],{})
    else: dyn(m,ex,n,['adj','x'],['s'],{'adj':{0:D.DYNAMIC,1:D.DYNAMIC},'x':{0:D.DYNAMIC}})
    m2=Gcn(); m2.load_state_dict(m.state_dict())
    L=run(m2,[0]*4,lambda m,b:F.cross_entropy(m(T64(adj),T64(x)),T64(y)),.3)
    save(n,['--loss','cross-entropy','--batch-size','9','--steps','4','--lr','0.3'],L,dict(adj=adj,x=x,target=y))

# scalars
class Wav(nn.Module):
    def __init__(s):
        super().__init__(); s.l=nn.Linear(8,2)
    def forward(s,wav,sr,gain): return s.l(wav*gain)+torch.log(sr.float())/10
N=10; wav=f32(N,8); sr=np.array(16000,np.int64); gain=np.array([.5],np.float32); y=f32(N,2)
for e in ['legacy','dyn','b1']:
    torch.manual_seed(2); m=Wav(); n='wav_'+e
    ex=(torch.randn(1 if e=='b1' else 3,8),torch.tensor(16000),torch.tensor([.5]))
    if e=='legacy': legacy(m,ex,n,['wav','sr','gain'],['s'],{'wav':{0:'batch'}})
    elif e=='b1': legacy(m,ex,n,['wav','sr','gain'],['s'],{})
    else: dyn(m,ex,n,['wav','sr','gain'],['s'],{'wav':{0:D.DYNAMIC},'sr':None,'gain':None})
    m2=Wav(); m2.load_state_dict(m.state_dict())
    L=run(m2,[(T64(wav)[c],T64(y)[c]) for c in chunks(N,4,5)],lambda m,b:F.mse_loss(m(b[0],T64(sr),T64(gain)),b[1]),.1)
    save(n,['--loss','mse','--batch-size','4','--steps','5','--lr','0.1'],L,dict(wav=wav,sr=sr,gain=gain,target=y))

# table with K == N open
class Table(nn.Module):
    def __init__(s):
        super().__init__(); s.l=nn.Linear(4,4)
    def forward(s,x,table): return s.l(x)@table.t()
N=6; x=f32(N,4); table=f32(6,4); y=rng.integers(0,6,N)
torch.manual_seed(3); m=Table()
legacy(m,(torch.randn(3,4),torch.randn(5,4)),'table',['x','table'],['s'],{'x':[0],'table':[0]})
m2=Table(); m2.load_state_dict(m.state_dict())
L=run(m2,[(T64(x)[c],T64(y)[c]) for c in chunks(N,4,4)],lambda m,b:F.cross_entropy(m(b[0],T64(table)),b[1]),.1)
save('table',['--loss','cross-entropy','--batch-size','4','--steps','4','--lr','0.1'],L,dict(x=x,table=table,target=y),says=["input 'table' is given whole to every batch"])

# loss within, own symbols, mask first
class Inside(nn.Module):
    def __init__(s):
        super().__init__(); s.m=Masked()
    def forward(s,mask,x,y): return F.cross_entropy(s.m(mask,x),y)
N=7;T=7;x=f32(N,T,4); y=rng.integers(0,3,N)
torch.manual_seed(4); m=Inside()
legacy(m,(torch.zeros(5,5),torch.randn(3,5,4),torch.tensor([0,1,2])),'inside',['mask','x','y'],['loss'],{'mask':[0,1],'x':[0,1],'y':[0]})
m2=Inside(); m2.load_state_dict(m.state_dict())
L=run(m2,[(T64(x)[c],T64(y)[c]) for c in chunks(N,3,6)],lambda m,b:m(T64(mask),b[0],b[1]),.1)
save('inside',['--loss','output:loss','--batch-size','3','--steps','6','--lr','0.1'],L,dict(mask=mask,x=x,y=y))

# LSTM: x [T,N,F], scores [N,T,C]
class Rnn(nn.Module):
    def __init__(s,how):
        super().__init__(); s.l=nn.LSTM(4,5); s.o=nn.Linear(5,3); s.how=how
    def forward(s,x):
        h=s.l(x)[0]
        return s.o(h).transpose(0,1) if s.how=='ntc' else s.o(h[-1])
for N,T in [(5,5),(6,4)]:
  x=f32(N,T,4)
  for how in ['ntc','nc']:
    for e in ['list','dyn','fixed']:
        y=rng.integers(0,3,(N,T) if how=='ntc' else N)
        torch.manual_seed(6); m=Rnn(how); n=f'rnn_{how}_{e}_{N}{T}'
        ex=(torch.randn(T,N,4) if e=='fixed' else torch.randn(6,3,4),)
        try:
            if e=='list': legacy(m,ex,n,['x'],['s'],{'x':{0:'time',1:'batch'}})
            elif e=='fixed': legacy(m,ex,n,['x'],['s'],{})
            else: dyn(m,ex,n,['x'],['s'],{'x':{0:D('time'),1:D('batch')}})
        except Exception as ee: print(n,'export',str(ee)[:100]); continue
        m2=Rnn(how); m2.load_state_dict(m.state_dict())
        def loss(m,b):
            s=m(b[0].transpose(0,1)); return F.cross_entropy(s.reshape(-1,3),b[1].reshape(-1))
        L=run(m2,[(T64(x)[c],T64(y)[c]) for c in chunks(N,N,3)],loss,.3)
        fl=['--loss','cross-entropy','--batch-size',str(N),'--steps','3','--lr','0.3']
        if e=='fixed': fl+=['--batch-input','x:1','--batch-input','target']
        if how=='ntc': fl+=['--class-axis','2']
        save(n,fl,L,dict(x=x,target=y))
# x [N,T,F] -> scores [T,N,C] (CTC-like), values mse
class Tnc(nn.Module):
    def __init__(s):
        super().__init__(); s.o=nn.Linear(4,3)
    def forward(s,x): return s.o(x).transpose(0,1).tanh()
for N,T in [(5,5),(6,4)]:
    x=f32(N,T,4); y=f32(N,T,3)
    for e in ['list','fixed']:
        torch.manual_seed(7); m=Tnc(); n=f'tnc_{e}_{N}{T}'
        legacy(m,(torch.randn(N,T,4) if e=='fixed' else torch.randn(3,6,4),),n,['x'],['s'],{'x':[0,1]} if e=='list' else {})
        m2=Tnc(); m2.load_state_dict(m.state_dict())
        L=run(m2,[(T64(x)[c],T64(y)[c]) for c in chunks(N,N,3)],lambda m,b:F.mse_loss(m(b[0]).transpose(0,1),b[1]),.3)
        save(n,['--loss','mse','--batch-size',str(N),'--steps','3','--lr','0.3'],L,dict(x=x,target=y))
# row 34: [1,'seq']
class Tok(nn.Module):
    def __init__(s):
        super().__init__(); s.e=nn.Embedding(11,4); s.o=nn.Linear(4,3)
    def forward(s,ids,mask): 
        h=s.e(ids)*mask.unsqueeze(-1); return s.o(h.sum(1)/mask.sum(1,keepdim=True))
N=6;T=9; ids=rng.integers(0,11,(N,T)); mask2=(rng.random((N,T))<.8).astype(np.float32); mask2[:,0]=1; y=rng.integers(0,3,N)
for e in ['legacy','dyn']:
    torch.manual_seed(8); m=Tok(); n='seq_'+e
    ex=(torch.zeros(1,5,dtype=torch.long),torch.ones(1,5))
    if e=='legacy': legacy(m,ex,n,['ids','mask'],['s'],{'ids':{1:'seq'},'mask':{1:'seq'}})
    else: dyn(m,ex,n,['ids','mask'],['s'],{'ids':{1:D.DYNAMIC},'mask':{1:D.DYNAMIC}})
    m2=Tok(); m2.load_state_dict(m.state_dict())
    L=run(m2,[(T64(ids)[c],T64(mask2)[c],T64(y)[c]) for c in chunks(N,4,4)],lambda m,b:F.cross_entropy(m(b[0],b[1]),b[2]),.3)
    save(n,['--loss','cross-entropy','--batch-size','4','--steps','4','--lr','0.3'],L,dict(ids=ids,mask=mask2,target=y))
# edge index
class Edge(nn.Module):
    def __init__(s):
        super().__init__(); s.a=nn.Linear(4,6); s.b=nn.Linear(6,3)
    def forward(s,x,ei):
        h=torch.relu(s.a(x)); m=h[ei[0]]; agg=torch.zeros_like(h).index_add(0,ei[1],m); return s.b(agg+h)
N=9; x=f32(N,4); ei=rng.integers(0,N,(2,14)); y=rng.integers(0,3,N)
for e in ['legacy','dyn']:
    torch.manual_seed(10); m=Edge(); n='edge_'+e
    ex=(torch.randn(5,4),torch.randint(0,5,(2,7)))
    try:
        if e=='legacy': legacy(m,ex,n,['x','ei'],['s'],{'x':{0:'nodes'},'ei':{1:'edges'}})
        else: dyn(m,ex,n,['x','ei'],['s'],{'x':{0:D.DYNAMIC},'ei':{1:D.DYNAMIC}})
    except Exception as ee: print(n,'export',str(ee)[-150:]); continue
    m2=Edge(); m2.load_state_dict(m.state_dict())
    L=run(m2,[0]*4,lambda m,b:F.cross_entropy(m(T64(x),T64(ei)),T64(y)),.3)
    save(n,['--loss','cross-entropy','--batch-size','9','--steps','4','--lr','0.3'],L,dict(x=x,ei=ei,target=y))
# pairs of a sample and a place, whose axes are of unequal length
class Tuples(nn.Module):
    def __init__(s):
        super().__init__(); s.a=nn.Linear(4,6); s.b=nn.Linear(6,3)
    def forward(s,x,pair):
        h=torch.relu(s.a(x)); return s.b(h.mean(1)+h[pair[:,0],pair[:,1]].mean(0,keepdim=True))
N=9; x=f32(N,5,4); pair=np.stack([rng.integers(0,N,7),rng.integers(0,5,7)],1); y=rng.integers(0,3,N)
torch.manual_seed(11); m=Tuples(); m2=Tuples(); m2.load_state_dict(m.state_dict())
for n in ['tuples','tuples_parts']:
    dyn(m,(torch.randn(4,5,4),torch.zeros(3,2,dtype=torch.int64)),n,['x','pair'],['s'],{'x':{0:D.DYNAMIC},'pair':{0:D.DYNAMIC}})
L=run(m2,[0]*4,lambda m,b:F.cross_entropy(m(T64(x),T64(pair)),T64(y)),.3)
flags=['--loss','cross-entropy','--steps','4','--lr','0.3','--batch-size']
save('tuples',[*flags,'9'],L,dict(x=x,pair=pair,target=y))
refuse('tuples_parts',[*flags,'3'],"input 'pair' refers to samples by position",dict(x=x,pair=pair,target=y))
# the same where the node reads the input itself, whose numbers are looked at before a step
h=onnx.helper
nodes=[h.make_node('MatMul',['x','w'],['h']),h.make_node('GatherND',['h','pair'],['p']),h.make_node('ReduceMean',['p'],['pm'],axes=[0],keepdims=1),
       h.make_node('ReduceMean',['h'],['hm'],axes=[1],keepdims=0),h.make_node('Add',['hm','pm'],['s'])]
onnx.save(h.make_model(h.make_graph(nodes,'tuples',[h.make_tensor_value_info('x',1,['N',5,4]),h.make_tensor_value_info('pair',7,['E',2])],
    [h.make_tensor_value_info('s',1,['N',3])],[onnx.numpy_helper.from_array(f32(4,3),'w')]),opset_imports=[h.make_opsetid('',17)],ir_version=8),path('tuples_outside'))
outside=pair.copy(); outside[4,1]=6
refuse('tuples_outside',[*flags,'9'],"element 9 of input 'pair' is 6, not one of 5",dict(x=x,pair=outside,target=y),replicas=[1])
