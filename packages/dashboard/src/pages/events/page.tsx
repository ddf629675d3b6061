import { useState } from 'preact/hooks'
import { useOperationMutation } from '../../api/hooks.ts'
import { filterSentence } from '../../format/sentences.ts'
import { messages } from '../../messages/en.ts'
import { useMenuKey } from '../../page-components/use-menu-key.ts'
import { useView, useViewQueries } from '../../state/hooks.ts'
import { announce } from '../../ui/announce.tsx'
import { Button } from '../../ui/button.tsx'
import { ErrorPanel, PageTitle } from '../../ui/states.tsx'
import { texts } from './messages.ts'
import { Properties } from './properties.tsx'
import { Samples } from './samples.tsx'

const nameMax = 200

/** What the site sends: names, values and the events themselves. */
export default function Page() {
  const { siteId, filters, range, hrefOf } = useView()
  const { bounds, environment, zone } = useViewQueries()
  const [isExported, setExported] = useState(false)
  const create = useOperationMutation('createExport', ['listExports'])
  useMenuKey()
  const sentence = filterSentence({ subject: texts.subject, filters, range, zone })
  const exportMatches = () => {
    setExported(false)
    const body = {
      site_id: siteId,
      type: 'events' as const,
      format: 'csv' as const,
      name: sentence.slice(0, nameMax),
      start_date: bounds.startMs,
      end_date: bounds.endMs,
      environment,
      ...(filters.length === 0 ? {} : { filter: filters }),
    }
    create.start({ body }, () => {
      setExported(true)
      announce(texts.exported)
    })
  }
  return (
    <>
      <PageTitle
        title={messages.nav.events}
        sentence={<bdi>{sentence}</bdi>}
        actions={
          <Button icon="file-down" isBusy={create.isBusy} onClick={exportMatches}>
            {texts.export}
          </Button>
        }
      />
      <div class="stack events">
        <ErrorPanel error={create.error} isChange onRetry={create.startAgain} />
        {isExported ? (
          <p class="notice">
            <span>
              {texts.exported} <a href={hrefOf({}, 'exports')}>{texts.toExports}</a>
            </span>
          </p>
        ) : null}
        <Properties />
        <Samples />
      </div>
    </>
  )
}
