"""Ways to a private address: as it is written, as a page asks for it, as an answer's head asks for it.

In pages `{t}` stands for the trap's host and port, `{p}` for its port alone.
"""

HOSTS = (
    "127.0.0.1", "127.1", "127.0.1", "0177.0.0.1", "0x7f.0.0.1", "0x7f000001", "2130706433",
    "017700000001", "0", "0.0.0.0", "127.127.127.127", "localhost", "LOCALHOST", "localhost.",
    "[::1]", "[::]", "[0:0:0:0:0:0:0:1]", "[::ffff:127.0.0.1]", "[::ffff:7f00:1]",
    "[::127.0.0.1]", "[64:ff9b::7f00:1]", "[2002:7f00:1::]", "[fe80::1]", "[fd00:ec2::254]",
    "169.254.169.254", "[::ffff:169.254.169.254]", "2852039166", "0xa9fea9fe", "100.100.100.200",
    "168.63.129.16", "10.0.0.1", "172.16.0.1", "192.168.0.1", "100.64.0.1", "198.18.0.1",
    "192.0.0.1", "224.0.0.1", "239.255.255.250", "255.255.255.255", "240.0.0.1", "[ff02::1]",
    "[fec0::1]", "trap.test", "mixed.test", "mapped.test", "rebind.test",
)  # fmt: skip

SCHEMES = (
    "file:///etc/passwd", "file://localhost/etc/passwd", "FILE:///etc/passwd", "ftp://127.0.0.1/",
    "data:text/html,<h1>x", "javascript:alert(1)", "about:blank", "chrome://version",
    "view-source:file:///etc/passwd", "blob:http://127.0.0.1/x", "gopher://127.0.0.1/",
    "ws://127.0.0.1/", "filesystem:http://127.0.0.1/", "//127.0.0.1/", "/etc/passwd", "",
    "http://", "http://:80/", "http://[::1/", "https:127.0.0.1",
)  # fmt: skip


PAGES = {
    "image": '<img src="http://{t}/">',
    "image over tls": '<img src="https://{t}/">',
    "frame": '<iframe src="http://{t}/"></iframe>',
    "frame in a document of its own": "<iframe srcdoc=\"<img src='http://{t}/'>\"></iframe>",
    "object": '<object data="http://{t}/"></object>',
    "embed": '<embed src="http://{t}/">',
    "script": '<script src="http://{t}/"></script>',
    "module": '<script type=module>import("http://{t}/x.js")</script>',
    "style": '<link rel=stylesheet href="http://{t}/">',
    "style import": '<style>@import url("http://{t}/");</style>',
    "background": '<div style="background:url(http://{t}/)">x</div>',
    "font": "<style>@font-face{{font-family:f;src:url(http://{t}/)}}p{{font-family:f}}</style><p>x",
    "video": '<video src="http://{t}/" autoplay></video>',
    "audio": '<audio src="http://{t}/" autoplay></audio>',
    "track": '<video><track default src="http://{t}/"></video>',
    "picture": '<picture><source srcset="http://{t}/"><img src="http://{t}/"></picture>',
    "svg": '<svg><image href="http://{t}/"/></svg>',
    "preload": '<link rel=preload as=fetch href="http://{t}/">',
    "prefetch": '<link rel=prefetch href="http://{t}/">',
    "preconnect": '<link rel=preconnect href="http://{t}/">',
    "icon": '<link rel=icon href="http://{t}/">',
    "manifest": '<link rel=manifest href="http://{t}/">',
    "speculation": '<script type=speculationrules>{{"prerender":[{{"urls":["http://{t}/"]}}]}}'
    "</script>",
    "fetch": '<script>fetch("http://{t}/",{{mode:"no-cors"}})</script>',
    "fetch of localhost": '<script>fetch("http://localhost:{p}/",{{mode:"no-cors"}})</script>',
    "fetch of six": '<script>fetch("http://[::1]:{p}/",{{mode:"no-cors"}})</script>',
    "fetch of a name": '<script>fetch("http://trap.test:{p}/",{{mode:"no-cors"}})</script>',
    "xhr": '<script>x=new XMLHttpRequest;x.open("POST","http://{t}/");x.send("a")</script>',
    "beacon": '<script>navigator.sendBeacon("http://{t}/","a")</script>',
    "event source": '<script>new EventSource("http://{t}/")</script>',
    "websocket": '<script>new WebSocket("ws://{t}/")</script>',
    "websocket over tls": '<script>new WebSocket("wss://{t}/")</script>',
    "websocket of localhost": '<script>new WebSocket("ws://localhost:{p}/")</script>',
    "websocket of six": '<script>new WebSocket("ws://[::1]:{p}/")</script>',
    "websocket of a name": '<script>new WebSocket("ws://trap.test:{p}/")</script>',
    "webtransport": '<script>new WebTransport("https://{t}/")</script>',
    "stun": '<script>r=new RTCPeerConnection({{iceServers:[{{urls:"stun:{t}"}}]}});'
    'r.createDataChannel("x");r.createOffer().then(o=>r.setLocalDescription(o))</script>',
    "stun of a frame": "<iframe srcdoc='<script>r=new RTCPeerConnection({{iceServers:[{{urls:"
    '"stun:{t}"}}]}});r.createDataChannel("x");r.createOffer().then(o=>r.setLocalDescription(o))'
    "</script>'></iframe>",
    "worker": '<script>new Worker(URL.createObjectURL(new Blob([\'fetch("http://{t}/",{{mode:'
    '"no-cors"}})\'])))</script>',
    "worker import": "<script>new Worker(URL.createObjectURL(new Blob(["
    "'importScripts(\"http://{t}/\")'])))</script>",
    "worker socket": "<script>new Worker(URL.createObjectURL(new Blob(["
    "'new WebSocket(\"ws://{t}/\")'])))</script>",
    "shared worker": "<script>new SharedWorker(URL.createObjectURL(new Blob(["
    '\'fetch("http://{t}/",{{mode:"no-cors"}})\'])))</script>',
    "form": '<form id=f method=post action="http://{t}/"></form><script>f.submit()</script>',
    "form in a frame": '<iframe name=i></iframe><form id=f target=i action="http://{t}/"></form>'
    "<script>f.submit()</script>",
    "window": '<script>open("http://{t}/")</script>',
    "location": '<script>location="http://{t}/"</script>',
    "location over tls": '<script>location="https://{t}/"</script>',
    "refresh": '<meta http-equiv=refresh content="0;url=http://{t}/">',
    "link pressed by script": '<a id=a href="http://{t}/">x</a><script>a.click()</script>',
    "link ping": '<a id=a href="#" ping="http://{t}/">x</a><script>a.click()</script>',
    "download": '<a id=a download href="http://{t}/">x</a><script>a.click()</script>',
    "redirected image": '<img src="/hop">',
    "redirected fetch": '<script>fetch("/hop",{{mode:"no-cors"}})</script>',
    # the same from further corners
    "source of a video": '<video autoplay><source src="http://{t}/"></video>',
    "poster": '<video poster="http://{t}/"></video>',
    "button that is an image": '<input type=image src="http://{t}/">',
    "frame in a sandbox": '<iframe sandbox src="http://{t}/"></iframe>',
    "frame of a data url": "<iframe src=\"data:text/html,<img src='http://{t}/'>\"></iframe>",
    "frame of a blob": '<script>f=document.createElement("iframe");f.src=URL.createObjectURL(new Blob('
    "['<img src=\"http://{t}/\">'],{{type:'text/html'}}));document.documentElement.append(f)</script>",
    "frame of a script": "<iframe src=\"javascript:'<img src=http://{t}/>'\"></iframe>",
    "frame that is moved": '<iframe id=i></iframe><script>i.src="http://{t}/"</script>',
    "frame that moves itself": "<iframe srcdoc=\"<script>location='http://{t}/'</script>\"></iframe>",
    "frame that moves its parent": "<iframe srcdoc=\"<script>top.location='http://{t}/'</script>\">"
    "</iframe>",
    "frameset": "<iframe srcdoc=\"<frameset><frame src='http://{t}/'></frameset>\"></iframe>",
    "refresh in a frame": "<iframe srcdoc=\"<meta http-equiv=refresh content='0;url=http://{t}/'>\">"
    "</iframe>",
    "svg script": '<svg><script href="http://{t}/"></script></svg>',
    "svg filter": '<svg width=9 height=9><filter id=f><feImage href="http://{t}/"/></filter>'
    '<rect width=9 height=9 filter="url(#f)"/></svg>',
    "svg in an object": "<object data=\"data:image/svg+xml,<svg xmlns='http://www.w3.org/2000/svg'>"
    "<script href='http://{t}/'/></svg>\"></object>",
    "svg use": '<svg><use href="http://{t}/a.svg#x"/></svg>',
    "image set": '<div style="background:image-set(url(http://{t}/) 1x);width:9px;height:9px">',
    "list style": '<ul style="list-style-image:url(http://{t}/)"><li>x</ul>',
    "border image": '<div style="border:9px solid;border-image:url(http://{t}/) 9">x</div>',
    "mask": '<div style="mask-image:url(http://{t}/);width:9px;height:9px">x</div>',
    "content": "<style>p::before{{content:url(http://{t}/)}}</style><p>x",
    "shape": '<div style="float:left;shape-outside:url(http://{t}/);width:9px;height:9px"></div>x',
    "filter of a style": '<div style="filter:url(http://{t}/a.svg#f);width:9px;height:9px">x</div>',
    "style by script": "<script>s=new CSSStyleSheet();d=document.createElement('style');"
    "d.textContent='@import url(http://{t}/)';document.documentElement.append(d)</script>",
    "module preload": '<link rel=modulepreload href="http://{t}/x.js">',
    "icon for a phone": '<link rel=apple-touch-icon href="http://{t}/">',
    "search description": '<link rel=search type="application/opensearchdescription+xml" '
    'href="http://{t}/">',
    "prerender": '<link rel=prerender href="http://{t}/">',
    "speculative prefetch": '<script type=speculationrules>{{"prefetch":[{{"source":"list",'
    '"urls":["http://{t}/"],"eagerness":"immediate"}}]}}</script>',
    "import map": '<script type=importmap>{{"imports":{{"x":"http://{t}/x.js"}}}}</script>'
    '<script type=module>import "x"</script>',
    "written by script": "<script>document.write('<img src=\"http://{t}/\">')</script>",
    "image by script": '<script>new Image().src="http://{t}/"</script>',
    "audio by script": '<script>new Audio("http://{t}/").play()</script>',
    "font by script": '<script>new FontFace("f","url(http://{t}/)").load()</script>',
    "base": '<base href="http://{t}/"><img src="x.png">',
    "fetch that is kept alive": '<script>fetch("http://{t}/",{{mode:"no-cors",keepalive:true}})'
    "</script>",
    "fetch later": '<script>setTimeout(()=>fetch("http://{t}/",{{mode:"no-cors"}}),50)</script>',
    "fetch with credentials in the url": '<script>x=new XMLHttpRequest;x.open("GET",'
    '"http://a:b@{t}/");x.send()</script>',
    "fetch of a number": '<script>fetch("http://2130706433:{p}/",{{mode:"no-cors"}})</script>',
    "fetch in octal": '<script>fetch("http://0177.0.0.1:{p}/",{{mode:"no-cors"}})</script>',
    "fetch of zero": '<script>fetch("http://0.0.0.0:{p}/",{{mode:"no-cors"}})</script>',
    "fetch of a mapped address": '<script>fetch("http://[::ffff:127.0.0.1]:{p}/",{{mode:"no-cors"}})'
    "</script>",
    "fetch with a preflight": '<script>fetch("http://{t}/",{{method:"PUT",headers:{{"x-a":"b"}}}})'
    "</script>",
    "xhr that waits": '<script>x=new XMLHttpRequest;x.open("GET","http://{t}/",false);x.send()</script>',
    "event source of a worker": "<script>new Worker(URL.createObjectURL(new Blob(["
    "'new EventSource(\"http://{t}/\")'])))</script>",
    "module of a worker": "<script>new Worker(URL.createObjectURL(new Blob(["
    "'import(\"http://{t}/x.js\")'])),{{type:'module'}})</script>",
    "worker in a worker": "<script>new Worker(URL.createObjectURL(new Blob(['new Worker(URL."
    'createObjectURL(new Blob(["fetch(`http://{t}/`,{{mode:`no-cors`}})"])))\'])))</script>',
    "audio worklet": '<script>new AudioContext().audioWorklet.addModule("http://{t}/x.js")</script>',
    "paint worklet": '<script>CSS.paintWorklet.addModule("http://{t}/x.js")</script>',
    "service worker": '<script>navigator.serviceWorker.register("/worker.js")</script>',
    "beacon at the end": '<script>onpagehide=()=>navigator.sendBeacon("http://{t}/","a")</script>',
    "form by a button": '<form action="http://{t}/"><button id=b>x</button></form>'
    "<script>b.click()</script>",
    "form with an address of the button": '<form action="/"><button id=b formaction="http://{t}/">x'
    "</button></form><script>b.click()</script>",
    "form into a new window": '<form id=f target=_blank action="http://{t}/"></form>'
    "<script>f.submit()</script>",
    "area of a map": '<map><area id=a href="http://{t}/"></map><script>a.click()</script>',
    "window without a parent": '<script>open("http://{t}/","_blank","noopener")</script>',
    "replace": '<script>location.replace("http://{t}/")</script>',
    "navigation": '<script>navigation.navigate("http://{t}/")</script>',
    "attribution": '<img attributionsrc="http://{t}/" src="/none">',
    "stun of a fresh frame": "<script>f=document.createElement('iframe');document.documentElement."
    "append(f);r=new f.contentWindow.RTCPeerConnection({{iceServers:[{{urls:'stun:{t}'}}]}});"
    "r.createDataChannel('x');r.createOffer().then(o=>r.setLocalDescription(o))</script>",
    "turn over tcp of a fresh frame": "<script>f=document.createElement('iframe');document."
    "documentElement.append(f);r=new f.contentWindow.RTCPeerConnection({{iceServers:[{{urls:"
    "'turn:{t}?transport=tcp',username:'a',credential:'b'}}]}});r.createDataChannel('x');"
    "r.createOffer().then(o=>r.setLocalDescription(o))</script>",
    "transport of a fresh frame": "<script>f=document.createElement('iframe');document."
    "documentElement.append(f);new f.contentWindow.WebTransport('https://{t}/')</script>",
    "redirected twice": '<img src="/hop2">',
    "redirected frame": '<iframe src="/hop"></iframe>',
    "redirected post": '<form id=f method=post action="/hop307"></form><script>f.submit()</script>',
    "redirected worker": '<script>new Worker("/hop")</script>',
    "redirected event source": '<script>new EventSource("/hop")</script>',
    "redirected socket": '<script>new WebSocket("ws://"+location.host+"/hop")</script>',
}

# header fields of an answer that make a browser fetch something
HEADS = {
    "link to preload": ("Link: <http://{t}/>; rel=preload; as=image",),
    "link to a style": ("Link: <http://{t}/>; rel=stylesheet",),
    "refresh": ("Refresh: 0;url=http://{t}/",),
    "report of a policy": ("Content-Security-Policy: img-src 'none'; report-uri http://{t}/",),
    "report to": (
        'Reporting-Endpoints: a="https://{t}/"',
        "Content-Security-Policy: img-src 'none'; report-to a",
    ),
}
