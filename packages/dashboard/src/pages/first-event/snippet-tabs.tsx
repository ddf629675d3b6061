import { useSession } from '../../state/session.tsx'
import { CodeBlock } from '../../ui/copy.tsx'
import { Tabs } from '../../ui/tabs.tsx'
import { texts } from './messages.ts'
import { snippetsOf } from './snippets.ts'

/** Programs that send an event of a site, as tabs; without a key they have a placeholder. */
export function SnippetTabs({ siteId, apiKey = texts.placeholder }: { siteId: string; apiKey?: string | undefined }) {
  const { collect_url: origin } = useSession()
  const snippets = snippetsOf(origin, apiKey, siteId)
  const tab = (id: keyof typeof snippets) => ({
    id,
    label: texts[id],
    content: () => <CodeBlock key={id} code={snippets[id]} label={texts.snippet(texts[id])} what={texts.what} />,
  })
  return <Tabs label={texts.tabs} tabs={[tab('curl'), tab('browser'), tab('node')]} />
}
