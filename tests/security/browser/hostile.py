"""Pages that mean harm: each takes what it can of the browser, of its driver or of the machine."""

from tests.security.browser.web import Answer, Site, html, redirect

WORDS = "<p>these words are harmless, and there are enough of them to be a page</p>"
TEXT = ("Content-Type: text/html",)
MILLION = 1_000_000

SCRIPTS = {
    "alert loop": "for(;;)alert(1)",
    "dialog storm": "setInterval(()=>{confirm(1);prompt(2)},0)",
    "print loop": "for(;;)print()",
    "print storm": "setInterval(print,0)",
    "will not be left": "onbeforeunload=e=>{e.preventDefault();e.returnValue='x';return 'x'}",
    "works on when left": "onpagehide=onunload=()=>{for(;;);}",
    "endless script": "for(;;);",
    "endless promises": "(f=()=>Promise.resolve().then(f))()",
    "endless timers": "setInterval(()=>{t=Date.now();while(Date.now()-t<500);},0)",
    "reload loop": "location.reload()",
    "moves on and on": "location='?'+Math.random()",
    "history flood": "setInterval(()=>{for(i=0;i<1e4;i++)history.pushState({},'','?'+i)},0)",
    "tab bomb": "for(i=0;i<1e4;i++)open(location.href,'w'+i)",
    "tab bomb by links": "setInterval(()=>{a=document.createElement('a');a.target='_blank';"
    "a.href=location.href;a.click()},0)",
    "windows without a name": "setInterval(()=>open('about:blank','_blank','noopener'),0)",
    "frame bomb": "for(i=0;i<9;i++){f=document.createElement('iframe');f.src=location.href+'#'+i+"
    "Math.random();document.documentElement.append(f)}",
    "worker bomb": "b=URL.createObjectURL(new Blob(['for(;;);']));for(i=0;i<64;i++)new Worker(b)",
    "deep document": "d=document.body;for(i=0;i<1e5;i++)d=d.appendChild(document.createElement('b'))",
    "wide document": "for(i=0;i<3e5;i++)document.body.append('word ',document.createElement('a'))",
    "endless writing": "setInterval(()=>document.write('x'.repeat(1e6)),0)",
    "endless title": "setInterval(()=>document.title='x'.repeat(1e6)+Math.random(),0)",
    "console flood": "for(;;)console.log('x'.repeat(1e6))",
    "console storm": "setInterval(()=>{for(i=0;i<500;i++)console.log('x'.repeat(1e4),{},[1])},0)",
    "error storm": "setInterval(()=>{for(i=0;i<99;i++)setTimeout(()=>{throw new Error('x'.repeat(1e5))})"
    "},0)",
    "message storm": "onmessage=e=>{postMessage(e.data);postMessage(e.data)};postMessage('x')",
    "fetch flood": "for(i=0;i<5000;i++)fetch('/none?'+i)",
    "beacon flood": "setInterval(()=>navigator.sendBeacon('/none','x'.repeat(6e4)),0)",
    "socket flood": "for(i=0;i<500;i++)new WebSocket('ws://'+location.host+'/socket')",
    "event source flood": "for(i=0;i<500;i++)new EventSource('/events')",
    "download storm": "setInterval(()=>{a=document.createElement('a');a.download='x';a.href='/file';"
    "a.click()},0)",
    "downloads made here": "setInterval(()=>{a=document.createElement('a');a.download='x';a.href="
    "URL.createObjectURL(new Blob(['x'.repeat(1e6)]));a.click()},0)",
    "local storage": "for(i=0;;i++)localStorage.setItem(i,'x'.repeat(1e5))",
    "a service worker": "navigator.serviceWorker.register('/worker.js')",
    "replaced builtins": "String.prototype.slice=JSON.stringify=Array.prototype.map=()=>{for(;;);}",
    "fullscreen and locks": "setInterval(()=>{document.documentElement.requestFullscreen().catch(()=>1);"
    "document.documentElement.requestPointerLock()},0)",
}

HOGS = {
    "arrays": "a=[];setInterval(()=>a.push(new Uint8Array(2e7).fill(1)),0)",
    "objects": "a=[];setInterval(()=>{for(i=0;i<2e5;i++)a.push({i,s:'x'+i})},0)",
    "canvases": "a=[];setInterval(()=>{c=document.createElement('canvas');c.width=c.height=2000;"
    "c.getContext('2d').fillRect(0,0,2000,2000);a.push(c,c.getContext('2d').getImageData(0,0,2000,"
    "2000))},0)",
}


def put_on(site: Site) -> dict[str, str]:
    """Put all pages but the hogs on a site; return their paths by name."""
    paths = {name: f"/hostile/{number}" for number, name in enumerate(SCRIPTS)}
    for name, path in paths.items():
        site.paths[path] = html(f"{WORDS}<script>{SCRIPTS[name]}</script>")
    floods = {
        "redirects without end": redirect("/flood/0"),
        "refreshes without end": html(f"<meta http-equiv=refresh content=0>{WORDS}"),
        "a gigabyte of text": Answer(b"<p>word " * 8_192, headers=TEXT, repeat=16_384),
        "a line without end": Answer(b"x" * 65_536, headers=TEXT, repeat=16_384),
        "a file of a gigabyte": Answer(b"x" * 65_536, headers=(), repeat=16_384),
        "a picture of a gigabyte": html(f'<img src="/file">{WORDS}'),
        "a body that drips": Answer(b"<p>word ", headers=TEXT, repeat=MILLION, pause_s=0.05),
        "heads without end": Answer(headers=(*TEXT, *(f"x-{n}: {'y' * 900}" for n in range(300)))),
        "a title of megabytes": html(WORDS, "x" * 5 * MILLION),
        "very many pictures": html("".join(f'<img src="/n?{n}">' for n in range(3_000)) + WORDS),
    }
    for number, (name, answer) in enumerate(floods.items()):
        paths[name] = f"/flood/{number}"
        site.paths[f"/flood/{number}"] = answer
    # an unmasked WebSocket frame of 64 KB, over and over; events in the same way
    frame = b"\x82\x7f" + (65_536).to_bytes(8, "big") + b"x" * 65_536
    events = b"data: x\n\n" * 1_000
    site.paths["/socket"] = Answer(frame, "101 Switching Protocols", (), repeat=MILLION)
    site.paths["/events"] = Answer(
        events, headers=("Content-Type: text/event-stream",), repeat=MILLION
    )
    site.paths["/file"] = floods["a file of a gigabyte"]
    site.paths["/worker.js"] = Answer(b"for(;;);", headers=("Content-Type: text/javascript",))
    site.paths["/fine"] = html(f"all is well {WORDS}")
    return paths
