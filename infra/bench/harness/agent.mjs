// promptfoo: it owns no tool loop for the Messages API, so the loop is a provider of its own kind.
import { readFileSync } from 'node:fs';
import Anthropic from '@anthropic-ai/sdk';

const job = JSON.parse(readFileSync(process.env.BENCH_JOB, 'utf8'));
const client = new Anthropic({ apiKey: 'bench', baseURL: job.url });
const tools = [
  {
    name: 'lookup',
    description: 'Looks something up.',
    input_schema: { type: 'object', properties: { id: { type: 'integer' } } },
  },
];

async function lookup({ id }) {
  return `found ${id}`;
}

export default class Agent {
  id() {
    return 'bench-agent';
  }

  async callApi(prompt) {
    const messages = [{ role: 'user', content: prompt }];
    for (;;) {
      const reply = await client.messages.create({
        model: job.model,
        max_tokens: 1024,
        messages,
        tools,
      });
      const calls = reply.content.filter((block) => block.type === 'tool_use');
      if (calls.length === 0) {
        const said = reply.content.filter((block) => block.type === 'text');
        return { output: said.map((block) => block.text).join('') };
      }
      const results = [];
      for (const call of calls) {
        const content = await lookup(call.input);
        results.push({ type: 'tool_result', tool_use_id: call.id, content });
      }
      messages.push({ role: 'assistant', content: reply.content });
      messages.push({ role: 'user', content: results });
    }
  }
}
