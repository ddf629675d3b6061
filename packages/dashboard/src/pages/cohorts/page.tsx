import type { CohortResource } from '@sluice/contracts/cohorts'
import { pageDefaults } from '@sluice/contracts/paging'
import { useApi } from '../../api/hooks.ts'
import { formatDate } from '../../format/dates.ts'
import { messages } from '../../messages/en.ts'
import { useMenuKey } from '../../page-components/use-menu-key.ts'
import { usePageParameter, useView, useViewQueries } from '../../state/hooks.ts'
import { useMay } from '../../state/session.tsx'
import { Button } from '../../ui/button.tsx'
import { InView } from '../../ui/in-view.tsx'
import { EmptyState, ErrorPanel, PageTitle, SkeletonRows } from '../../ui/states.tsx'
import { DataTable } from '../../ui/table.tsx'
import { criteriaSentence } from './criteria.ts'
import { Detail } from './detail.tsx'
import { Editor } from './editor.tsx'
import { texts } from './messages.ts'
import { CohortSize } from './size.tsx'

const newCohort = 'new'
const refreshMs = 60_000

/** The cohorts of the site: the list, one cohort next to it, or the form for a new one. */
export default function Page() {
  const { siteId } = useView()
  const [edited, setEdited] = usePageParameter('edit')
  const [, setDraft] = usePageParameter('draft')
  const [, setName] = usePageParameter('name')
  const [, setDescription] = usePageParameter('description')
  const [open, setOpen] = usePageParameter('open')
  const mayWrite = useMay('cohorts:write')
  useMenuKey()
  const cohorts = useApi(
    'listCohorts',
    { query: { site_id: siteId, limit: pageDefaults.limitMax } },
    // A cohort that somebody else deletes must not take the form away that it is edited in.
    { refetchMs: (answer) => (answer === undefined || edited !== undefined ? false : refreshMs) },
  )
  const known = cohorts.data?.cohorts
  const find = (id: string | undefined) => known?.find(({ cohort_id }) => cohort_id === id)
  const toEdit = find(edited)
  const opened = find(open)
  const missing = [open, edited].find((id) => id !== undefined && id !== newCohort && find(id) === undefined)
  if (mayWrite && (edited === newCohort || toEdit !== undefined)) {
    return (
      <Editor
        key={edited}
        cohort={toEdit}
        onClose={(savedId) => {
          setEdited(undefined)
          for (const set of [setDraft, setName, setDescription]) set(undefined, true)
          if (savedId !== undefined) setOpen(savedId, true)
        }}
      />
    )
  }
  return (
    <>
      <List cohorts={known} openId={open} onOpen={setOpen} onCreate={() => setEdited(newCohort)} />
      {cohorts.isLoading ? <SkeletonRows rows={6} /> : null}
      {known === undefined || missing === undefined ? null : (
        <p class="notice" role="alert">
          <bdi>{texts.unknown(missing)}</bdi>
        </p>
      )}
      <ErrorPanel error={cohorts.error} onRetry={cohorts.retry} />
      {opened === undefined ? null : (
        <Detail
          key={opened.cohort_id}
          cohort={opened}
          onEdit={() => {
            setOpen(undefined)
            setEdited(opened.cohort_id, true)
          }}
          onClose={() => setOpen(undefined)}
        />
      )}
    </>
  )
}

function List({
  cohorts,
  openId,
  onOpen,
  onCreate,
}: {
  cohorts: readonly CohortResource[] | undefined
  openId: string | undefined
  onOpen: (id: string) => void
  onCreate: () => void
}) {
  const { zone } = useViewQueries()
  const mayWrite = useMay('cohorts:write')
  const create = (
    <Button kind="primary" icon="plus" onClick={onCreate}>
      {texts.create}
    </Button>
  )
  return (
    <>
      <PageTitle
        title={messages.nav.cohorts}
        sentence={mayWrite ? texts.sentence : `${texts.sentence} ${texts.needsWrite}`}
        actions={mayWrite ? create : undefined}
      />
      {cohorts === undefined ? null : (
        <DataTable
          caption={messages.nav.cohorts}
          columns={[
            { id: 'name', header: texts.name, cell: (row) => <bdi>{row.name}</bdi>, sort: (row) => row.name },
            {
              id: 'definition',
              header: texts.definition,
              cell: (row) => <bdi class="muted">{criteriaSentence(row.criteria)}</bdi>,
            },
            {
              id: 'size',
              header: texts.size,
              cell: (row) => (
                <InView class="size-in-view">{() => <CohortSize criteria={row.criteria} name={row.name} />}</InView>
              ),
            },
            {
              id: 'changed',
              header: texts.changed,
              cell: (row) => <span class="nowrap">{formatDate(row.updated_at, zone)}</span>,
              sort: (row) => row.updated_at,
            },
          ]}
          rows={cohorts}
          rowKey={({ cohort_id }) => cohort_id}
          openKey={openId}
          onOpen={({ cohort_id }) => onOpen(cohort_id)}
          empty={
            <EmptyState icon="users" title={texts.none} why={texts.noneWhy} action={mayWrite ? create : undefined} />
          }
        />
      )}
    </>
  )
}
