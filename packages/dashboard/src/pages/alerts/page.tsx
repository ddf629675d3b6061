import { useEffect, useRef } from 'preact/hooks'
import type { AlertResource } from '@sluice/contracts/alerts'
import { pageDefaults } from '@sluice/contracts/paging'
import { serverTimeAt } from '../../api/client.ts'
import { useApi } from '../../api/hooks.ts'
import { kindOf } from '../../format/numbers.ts'
import { messages } from '../../messages/en.ts'
import { ResourceList } from '../../page-components/resource-list.tsx'
import { usePageParameter } from '../../state/hooks.ts'
import { useSite } from '../../state/session.tsx'
import { Num } from '../../ui/numbers.tsx'
import type { Column } from '../../ui/table.tsx'
import { Ago } from '../../ui/time.tsx'
import { AlertState } from './alert-state.tsx'
import { texts } from './messages.ts'
import { NewRule, Rule } from './rule.tsx'
import { conditionText } from './rule-text.ts'

const refreshMs = 15_000

/** The alert rules of the site; or one of them, with its chart and history. */
export default function Page() {
  const [openId, setOpen] = usePageParameter('open')
  const isOpening = useRef(false)
  const open = (id: string | undefined) => {
    setOpen(id)
    isOpening.current = true
  }
  const onShown = () => {
    // A rule has replaced the list on the page, or the list a rule: screen readers announce the focused heading.
    if (isOpening.current) document.querySelector<HTMLElement>('main h1')?.focus()
    isOpening.current = false
  }
  if (openId === 'new') return <NewRule onDone={open} onShown={onShown} />
  if (openId !== undefined) return <Rule key={openId} id={openId} onDone={open} onShown={onShown} />
  return <RuleList onOpen={open} onShown={onShown} />
}

function RuleList({ onOpen, onShown }: { onOpen: (id: string) => void; onShown: () => void }) {
  useEffect(onShown, [])
  const { site_id: siteId } = useSite()
  const query = { query: { site_id: siteId, limit: pageDefaults.limitMax } }
  const alerts = useApi('listAlerts', query, { refetchMs: refreshMs, staleMs: 0 })
  return (
    <ResourceList
      title={messages.nav.alerts}
      sentence={texts.sentence}
      request={['listAlerts', query]}
      answer={alerts}
      records={alerts.data?.alerts}
      fileParts={[siteId, 'alerts']}
      create={{
        label: texts.create,
        icon: 'plus',
        onClick: () => onOpen('new'),
      }}
      empty={{ icon: 'bell', title: texts.none, why: texts.noneWhy }}
      columns={columnsOf(serverTimeAt(alerts.answeredAt))}
      rowKey={(rule) => rule.rule_id}
      onOpen={onOpen}
    />
  )
}

/** `at`: the server's time of the answer that has the rules, Unix ms. */
const columnsOf = (at: number): readonly Column<AlertResource>[] => [
  { id: 'name', header: texts.columns.name, cell: (rule) => <bdi>{rule.name}</bdi>, sort: (rule) => rule.name },
  { id: 'condition', header: texts.columns.condition, cell: (rule) => <bdi>{conditionText(rule.condition)}</bdi> },
  {
    id: 'state',
    header: texts.columns.state,
    cell: (rule) => <AlertState rule={rule} at={at} />,
    sort: (rule) => rule.state,
  },
  {
    id: 'last_value',
    header: texts.columns.value,
    align: 'end',
    cell: (rule) =>
      rule.last_value === null ? (
        '–'
      ) : (
        <Num value={rule.last_value} kind={kindOf(rule.condition.metric)} name={`${rule.rule_id} last_value`} />
      ),
    sort: (rule) => rule.last_value ?? 0,
  },
  {
    id: 'last_fired_at',
    header: texts.columns.fired,
    cell: (rule) =>
      rule.last_fired_at === null ? <span class="muted">{texts.never}</span> : <Ago ms={rule.last_fired_at} />,
    sort: (rule) => rule.last_fired_at ?? 0,
  },
  { id: 'notify', header: texts.columns.notify, cell: (rule) => texts.types[rule.notification_type] },
]
